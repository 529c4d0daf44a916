import matplotlib.pyplot as plt

slope, base = np.polyfit(good.km, good.fare, 1)

distances, ax = plt.subplots(figsize=(8, 5))
good.km.hist(bins=60, ax=ax)
ax.set(title="Distance", xlabel="km")
fares, ax = plt.subplots(figsize=(8, 5))
ax.hexbin(good.km, good.fare, gridsize=50, mincnt=1)
ax.set(title=f"Fare: {base:.2f} and {slope:.2f} a km", xlabel="km")
hours, ax = plt.subplots(figsize=(8, 5))
good.groupby(good.start.dt.hour).fare.sum().plot.bar(ax=ax, rot=0)
ax.set(title="Income by hour", xlabel="")
print(f"A trip costs {base:.2f} and {slope:.2f} a km")
