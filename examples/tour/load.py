from sklearn.datasets import load_wine

wine = load_wine(as_frame=True)
df = wine.frame.assign(cultivar=wine.target.map(lambda i: wine.target_names[i]))
df.to_csv("output/wine.csv", index=False)
print(len(df), "wines,", len(wine.feature_names), "measurements")
df.groupby("cultivar")[["alcohol", "malic_acid", "proline"]].mean().round(2)
