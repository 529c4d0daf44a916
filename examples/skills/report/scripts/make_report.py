#!/usr/bin/env python3
"""Makes a Word document of a CSV file: a title, sums by group as a table, and a chart of them."""

import argparse
import io
import pathlib

import docx
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import pandas as pd  # noqa: E402

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("csv")
parser.add_argument("docx")
parser.add_argument("--title", default="Report")
parser.add_argument("--group", required=True, help="column of text to group by")
parser.add_argument("--value", required=True, help="column of numbers to add up")
given = parser.parse_args()

data = pd.read_csv(given.csv)
missing = {given.group, given.value} - set(data.columns)
if missing:
    parser.error(f"no column {', '.join(sorted(missing))}; there are {', '.join(data.columns)}")
sums = data.groupby(given.group)[given.value].sum().sort_values(ascending=False)

document = docx.Document()
document.add_heading(given.title, 0)
document.add_paragraph(f"{len(data)} rows, {given.value} {sums.sum():,.2f} in {len(sums)} groups.")
table = document.add_table(rows=1, cols=3, style="Table Grid")
for cell, text in zip(table.rows[0].cells, (given.group, given.value, "share")):
    cell.text = text
for name, value in sums.items():
    for cell, text in zip(table.add_row().cells, (str(name), f"{value:,.2f}", f"{value / sums.sum():.0%}")):
        cell.text = text

picture = io.BytesIO()
axes = sums.plot.barh(figsize=(6, 0.4 * len(sums) + 1))
axes.invert_yaxis()
axes.set_xlabel(given.value)
plt.tight_layout()
plt.savefig(picture, dpi=120)
document.add_picture(picture)

path = pathlib.Path(given.docx)
path.parent.mkdir(parents=True, exist_ok=True)
document.save(path)
print(f"{path}: {len(sums)} groups, {sums.index[0]} is the largest with {sums.iloc[0] / sums.sum():.0%}")
