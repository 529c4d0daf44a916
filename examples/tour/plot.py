import seaborn as sns
import matplotlib.pyplot as plt

sns.set_theme(style="whitegrid")
grid = sns.relplot(df, x="alcohol", y="proline", hue="cultivar", size="color_intensity", height=4.5, aspect=1.5)
grid.set(title="Alcohol and proline tell three cultivars apart")
plt.show()
