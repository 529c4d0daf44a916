import datetime, io, warnings
import duckdb, h5py, networkx as nx, numpy as np, pandas as pd, polars as pl, sqlalchemy as sa
from dateutil import tz
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d import Axes3D
from scipy import stats
from statsmodels.stats.diagnostic import acorr_ljungbox
from statsmodels.tsa.arima.model import ARIMA
warnings.simplefilter("ignore")
frame = pd.DataFrame({"text": ["x", None], "number": [1, None]})
print(frame.text.dtype, frame.text.dtype == object, frame.text[1])
frame["number"][0] = 5; frame["number"].fillna(0, inplace=True)
print(frame.number.tolist())
times = pd.Series(pd.to_datetime(["2024-01-01"]))
print(times.dtype, times.astype("int64")[0] // 10**9, times.dt.as_unit("s").astype("int64")[0])
print(len(pd.DataFrame({"g": pd.Categorical(["a"], ["a", "b"]), "x": [1]}).groupby("g").sum()))
print(pd.DataFrame({"g": [1], "x": [1]}).groupby("g").apply(lambda group: list(group)).tolist())
print(np.uint8(200) + 100, [np.float64(1.5)], np.ndim(stats.mode([1, 1, 2]).mode))
file = io.BytesIO(b"a,b\n1,2\n3,4\n"); file.readline()
print(pl.read_csv(file).columns, type(pl.from_arrow(pl.DataFrame({"a": [1]}))).__name__)
print((pl.Series([1], dtype=pl.Int64) + pl.Series([1], dtype=pl.UInt64)).dtype, type(pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 2))).__name__)
db = duckdb.connect(); db.execute("create sequence s")
numbers = db.sql("select nextval('s')"); db.execute("select 7 / 2")
try: numbers.fetchall()
except duckdb.Error as error: print(type(error).__name__, db.cursor().sql("select 1").fetchall(), db.fetchall())
print(numbers.fetchall(), numbers.fetchall())
engine = sa.create_engine("sqlite:////tmp/quiet.db")
with engine.begin() as c: c.execute(sa.text("create table t (a int)"))
with engine.connect() as c: c.execute(sa.text("insert into t values (1)"))
with engine.connect() as c: print(c.execute(sa.text("select count(*) from t")).scalar())
figure = Figure(); Axes3D(figure); print(figure.axes)
print(type(ARIMA([1, 2, 3, 2, 1, 3.], order=(1, 0, 0)).fit().forecast(2)).__name__, type(acorr_ljungbox([1, 2, 3, 2, 1, 3.], lags=[2])).__name__)
print(type(nx.shortest_path(nx.path_graph(3))).__name__, "edges" in nx.node_link_data(nx.Graph()))
store = h5py.File("quiet", "w", driver="core", backing_store=False); store["s"] = "abc"; print(store["s"][()], store["s"].asstr()[()])
print(datetime.datetime(2024, 3, 31, 2, 30, tzinfo=tz.gettz("Europe/Paris")).utcoffset())
