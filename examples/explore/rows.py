# Trips of taxis, as they might be measured: some without a distance, some with a fare below zero.
import numpy as np
import pandas as pd

random = np.random.default_rng(7)
n = 50_000
trips = pd.DataFrame({
    "start": pd.Timestamp("2026-01-01") + pd.to_timedelta(random.integers(0, 365, n), unit="D")
    + pd.to_timedelta(random.choice([8.5, 18], n, p=[0.4, 0.6]) + random.normal(0, 2.2, n), unit="h"),
    "km": random.gamma(2, 3, n).round(2),
})
trips["fare"] = (3.50 + 1.80 * trips.km + random.normal(0, 0.8, n)).round(2)
trips.loc[trips.sample(500, random_state=1).index, "km"] = np.nan
trips.loc[trips.sample(250, random_state=2).index, "fare"] *= -1

good = trips.dropna()
good = good[good.fare > 0]
print(f"{n:,} rows, {len(good):,} of them good")
good.describe()
