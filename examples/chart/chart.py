import matplotlib.pyplot as plt
import pandas as pd

rows = pd.read_csv("input/chart.csv", index_col=0)
rows.plot(figsize=(8, 4), title=f"{len(rows)} rows")
plt.tight_layout()
plt.savefig("output/chart.png", dpi=120)
rows.sum(numeric_only=True)
