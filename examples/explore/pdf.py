from matplotlib.backends.backend_pdf import PdfPages

with PdfPages("output/trips.pdf") as pdf:
    cover = plt.figure(figsize=(8, 5))
    cover.text(0.1, 0.8, "Trips in 2026", size=24)
    cover.text(0.1, 0.3, good[["km", "fare"]].describe().round(2).to_string(), family="monospace")
    for page in (cover, distances, fares, hours):
        pdf.savefig(page)
plt.close("all")
