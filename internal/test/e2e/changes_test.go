//go:build unix

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the package of hints knows of the errors of libraries: code, and the error that it raises.
const refusedCode = "../../../tools/internal/hint/testdata/changes.json"

type raised struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}

// raiseAll is Python for one run that raises the errors of all codes. The kernel describes them as those of runs.
const raiseAll = `import gc, io, json, linecache, sys, types
import networkx as nx, numpy as np, pandas as pd, polars as pl, pypdf
from matplotlib.figure import Figure
def blank():
    writer, file = pypdf.PdfWriter(), io.BytesIO()
    writer.add_blank_page(9, 9)
    writer.write(file)
    return file
describe = next(f for f in gc.get_objects() if type(f) is types.FunctionType and (f.__module__, f.__name__) == ("errors", "describe"))
space = sys.modules["__main__"].__dict__
def error_of(code):
    before = set(space)
    linecache.cache["<cell>"] = (len(code), None, code.splitlines(True), "<cell>")
    try:
        exec(compile(code, "<cell>", "exec"), space)
    except BaseException as error:
        return describe(error)
    finally:
        for name in set(space) - before:
            del space[name]
with open("output/errors.json", "w") as file:
    json.dump({code: error_of(code) for code in json.loads(CODES)}, file)
`

// quiet is what has changed without an error: code, and the lines that it prints.
var quiet = struct {
	code string
	want []string
}{`import datetime, io, warnings
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
`, []string{
	"str False nan", "[1.0, nan]", "datetime64[us] 1704067 1704067200", "1", "[['x']]", "44 [np.float64(1.5)] 0",
	"['1', '2'] Series", "Int128 Expr", "ResourceInUseException [(1,)] [(3.5,)]", "[(1,)] [(1,)]", "0", "[]",
	"ndarray DataFrame", "generator True", "b'abc' abc", "1:00:00",
}}

// passing is what differs from run to run in an error, and from one release of a library to the next.
var passing = regexp.MustCompile(`0x[0-9a-f]+|\((\w+) [\w.+]+\)\n?$|\bid='\w+'|among \{[^}]*\}`)

// telling are the lines of a traceback that tell whose an error is: the files of libraries, and the library that the kernel names.
var telling = regexp.MustCompile(`(?m)^(  File "[^"\n]*/[^"\n]*"|\(\w+ \d[\w.+]*\)$)`)

// A new version of a library that says something else, or takes again what it has refused, is noticed here.
func TestLibrariesRefuseWhatHintsAreFor(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(refusedCode)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]*raised
	decode(t, content, &want)
	dir := t.TempDir()
	s := start(t, setup{args: []string{"--allow-host-dir", dir}})
	if strings.Contains(s.py("import os; os.path.exists('/usr/local/share/code-sandbox/why-debian')").text(), "True") {
		t.Skip("the image has Debian's packages, which are older")
	}
	if got := strings.TrimSpace(s.py(quiet.code).Meta.Run.Stdout); got != strings.Join(quiet.want, "\n") {
		t.Errorf("a library does in another way what tools/usage.md and docs/library-changes.md tell: got\n%s\nwant\n%s", got, strings.Join(quiet.want, "\n"))
	}
	codes, err := json.Marshal(slices.Sorted(maps.Keys(want)))
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(string(codes))
	if err != nil {
		t.Fatal(err)
	}
	s.py(strings.Replace(raiseAll, "CODES", string(quoted), 1))
	s.call("read_artifact", object{"path": "output/errors.json", "save_to": filepath.Join(dir, "errors.json")})
	if content, err = os.ReadFile(filepath.Join(dir, "errors.json")); err != nil {
		t.Fatal(err)
	}
	decode(t, content, &got)
	for code, error := range got {
		if error == nil {
			t.Errorf("it works: %s", code)
			continue
		}
		error.shorten()
		if old := want[code]; *update || old == nil {
			want[code] = error
		} else if plain := func(e *raised) string { return passing.ReplaceAllString(e.Name+": "+e.Message+"\n"+e.Traceback, "$1") }; plain(error) != plain(old) {
			t.Errorf("%s\ngot  %s\nwant %s\n(record it with -update, and look at testdata/changes.txt)", code, plain(error), plain(old))
		}
	}
	if *update {
		if content, err = json.MarshalIndent(want, "", " "); err == nil {
			err = os.WriteFile(refusedCode, append(content, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shorten leaves in an error what tells one from another.
func (e *raised) shorten() {
	const most = 250
	e.Message = e.Message[:min(len(e.Message), most)]
	e.Traceback = "\n" + strings.Join(slices.Compact(telling.FindAllString(e.Traceback, -1)), "\n") + "\n"
}
