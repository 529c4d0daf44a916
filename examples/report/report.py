import base64, glob, io
import matplotlib.pyplot as plt
import pandas as pd

files = sorted(glob.glob("input/*.csv"))
orders = pd.concat((pd.read_csv(file, parse_dates=["date"]) for file in files), ignore_index=True)
orders["sales"] = orders.units * orders.price
months = orders.pivot_table(index=orders.date.dt.strftime("%Y-%m"), columns="region", values="sales", aggfunc="sum", fill_value=0)

picture = io.BytesIO()
ax = months.plot.bar(stacked=True, rot=0, xlabel="", ylabel="sales", figsize=(7, 4))
ax.legend(loc="upper left")
ax.figure.savefig(picture, format="png", bbox_inches="tight")
plt.close("all")

table = months.assign(all=months.sum(axis=1)).to_html(float_format="{:,.2f}".format, border=0)
products = orders.groupby("product")[["units", "sales"]].sum().sort_values("sales", ascending=False)
with open("output/report.html", "w") as page:
    page.write(f"""<!doctype html><meta charset="utf-8"><title>Sales</title>
<style>body {{ font: 16px sans-serif; margin: 3em }} td {{ text-align: right; padding: 0 1em }}</style>
<h1>Sales: {orders.sales.sum():,.2f}</h1>
<p>{len(orders)} orders in {len(files)} files. Best product: {products.index[0]}.</p>
<img src="data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}" alt="sales by month and region">
<h2>By month and region</h2>{table}
<h2>By product</h2>{products.to_html(float_format="{:,.2f}".format, border=0)}""")
print(f"{len(orders)} orders, sales {orders.sales.sum():.2f}")
