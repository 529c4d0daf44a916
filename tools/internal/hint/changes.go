// Names and arguments that this year's versions of libraries refuse, and their replacements.

package hint

import (
	"cmp"
	"regexp"
	"strings"
)

// instead maps a name or an argument that is gone to its replacement. A key is a module and a name in it, a library and an attribute of its
// objects, or a library, a function (none: any) and its argument in parentheses. Errors that name the replacement themselves need no row.
var instead = map[string]string{
	"numpy.in1d": "`np.isin`", "numpy.trapz": "`np.trapezoid`", "numpy.product": "`np.prod`", "numpy.row_stack": "`np.vstack`", "numpy.ptp": "`np.ptp(a)`",
	"numpy.tostring": "`a.tobytes()`", "numpy.math": "`import math`", "numpy.warnings": "`import warnings`",
	"numpy.VisibleDeprecationWarning": "`np.exceptions.VisibleDeprecationWarning`", "numpy.ComplexWarning": "`np.exceptions.ComplexWarning`",
	"numpy.AxisError": "`np.exceptions.AxisError`", "numpy.bool8": "`np.bool_`", "numpy.npv": "`numpy_financial.npv`, of the package numpy-financial",
	"numpy.irr": "`numpy_financial.irr`, of the package numpy-financial", "numpy.percentile(interpolation)": "`method=`",
	"numpy.quantile(interpolation)": "`method=`", "numpy.histogram(normed)": "`density=`",
	"scipy.integrate.simps": "`simpson`", "scipy.integrate.trapz": "`trapezoid`", "scipy.integrate.cumtrapz": "`cumulative_trapezoid`",
	"scipy.integrate.quadrature": "`quad`", "scipy.interpolate.spline": "`make_interp_spline`", "scipy.stats.binom_test": "`binomtest(k, n, p).pvalue`",
	"scipy.stats.median_absolute_deviation": "`median_abs_deviation`", "scipy.stats.itemfreq": "`np.unique(a, return_counts=True)`",
	"scipy.misc.derivative": "`scipy.differentiate.derivative`", "scipy.misc.comb": "`scipy.special.comb`",
	"scipy.misc.logsumexp": "`scipy.special.logsumexp`", "scipy.misc.imread": "`PIL.Image.open(path)`",
	"scipy.signal.gaussian": "`scipy.signal.windows.gaussian`", "scipy.signal.hann": "`scipy.signal.windows.hann`",
	"scipy.signal.hamming": "`scipy.signal.windows.hamming`", "scipy.signal.ricker": "`pywt`, of the package PyWavelets",
	"scipy.signal.cwt": "`pywt.cwt`, of the package PyWavelets", "scipy.special.sph_harm": "`sph_harm_y(n, m, theta, phi)`, with theta the polar angle",
	"scipy.linalg.pinv2": "`pinv`", "scipy.mean": "`np.mean`", "scipy.array": "`np.array`", "scipy.A": "`.toarray()`", "scipy.getrow": "`a[[i]]`",
	"scipy.firwin(nyq)": "`fs=`, which is twice that",
	"pandas.append":     "`pd.concat([a, b])`", "pandas.applymap": "`map`", "pandas.iteritems": "`items()`",
	"pandas.ix": "`loc` (labels) or `iloc` (positions)", "pandas.mad": "`(s - s.mean()).abs().mean()`", "pandas.pad": "`ffill()`",
	"pandas.backfill":                "`bfill()`",
	"pandas.is_monotonic":            "`is_monotonic_increasing`",
	"pandas.DatetimeProperties.week": "`isocalendar().week`", "pandas.DatetimeProperties.weekofyear": "`isocalendar().week`", "pandas.Styler.render": "`to_html()`",
	"pandas.hide_index": "`hide(axis=\"index\")`", "pandas.set_precision": "`format(precision=2)`",
	"pandas.XlsxWriter.save": "`with pd.ExcelWriter(path) as writer:`, or `close()`", "pandas.Int64Index": "`pd.Index`",
	"pandas.Float64Index": "`pd.Index`", "pandas.np": "`import numpy as np`", "pandas.datetime": "`import datetime`",
	"pandas.value_counts": "`pd.Series(values).value_counts()`", "pandas.io.json.json_normalize": "`pd.json_normalize`",
	"pandas.util.testing": "`pandas.testing`", "pandas.fillna(method)": "`ffill()` or `bfill()`",
	"pandas.replace(method)": "`ffill()` or `bfill()` after it", "pandas.read_csv(error_bad_lines)": "`on_bad_lines=\"skip\"`",
	"pandas.read_csv(squeeze)": "`.squeeze(\"columns\")`", "pandas.read_csv(date_parser)": "`date_format=`, or `pd.to_datetime` after it",
	"pandas.read_csv(infer_datetime_format)": "leave it out", "pandas.read_csv(delim_whitespace)": "`sep=r\"\\s+\"`",
	"pandas.to_datetime(infer_datetime_format)": "leave it out", "pandas.groupby(axis)": "`df.T.groupby(…).sum().T`",
	"pandas.rolling(axis)": "`df.T.rolling(…)` for rows, else leave it out", "pandas.to_excel(encoding)": "leave it out",
	"pandas.set_axis(inplace)": "`df = df.set_axis(…)`", "pandas.sum(level)": "`groupby(level=…).sum()`", "pandas._generate_range(closed)": "`inclusive=`",
	"matplotlib.cm.get_cmap": "`matplotlib.colormaps[name]`, or `plt.get_cmap(name, n)`", "matplotlib.cm.register_cmap": "`matplotlib.colormaps.register`",
	"matplotlib.pyplot.plot_date": "`plot`", "matplotlib.plot_date": "`plot`",
	"matplotlib.set_window_title": "`fig.suptitle(text)`: there is no window", "matplotlib.legendHandles": "`legend_handles`",
	"matplotlib.QuadContourSet.collections": "the set itself, as in `ax.clabel(cs)`, `cs.set_alpha(…)`", "matplotlib.GrouperView.join": "`ax.sharex(other)`",
	"matplotlib.tostring_rgb": "`np.asarray(canvas.buffer_rgba())[..., :3]`", "matplotlib.boxplot(labels)": "`tick_labels=`",
	"matplotlib.set(normed)": "`density=`", "matplotlib.gca(projection)": "`fig.add_subplot(projection=\"3d\")`",
	"matplotlib.stem(use_line_collection)": "leave it out", "matplotlib.print_jpg(quality)": "`pil_kwargs={\"quality\": 90}`",
	"matplotlib.use(warn)": "leave it out",
	"seaborn.factorplot":   "`catplot`", "seaborn.lmplot(size)": "`height=`",
	"plotly.graph_objects.Scattermapbox": "`go.Scattermap`", "plotly.graph_objects.Choroplethmapbox": "`go.Choroplethmap`",
	"plotly.graph_objects.Densitymapbox": "`go.Densitymap`", "plotly.graph_objects.Heatmapgl": "`go.Heatmap`",
	"plotly.express.scatter_mapbox": "`px.scatter_map`, with `map_style=`", "plotly.express.line_mapbox": "`px.line_map`, with `map_style=`",
	"plotly.express.choropleth_mapbox": "`px.choropleth_map`, with `map_style=`", "plotly.express.density_mapbox": "`px.density_map`, with `map_style=`",
	"plotly.express.set_mapbox_access_token": "leave it out: maps need no token", "plotly.figure_factory.create_gantt": "`px.timeline`",
	"plotly.figure_factory.create_distplot":          "`px.histogram(…, marginal=\"rug\")`",
	"plotly.figure_factory.create_annotated_heatmap": "`px.imshow(z, text_auto=True)`",
	"plotly.figure_factory.create_hexbin_mapbox":     "`ff.create_hexbin_map`", "plotly.plotly": "`fig.show()` or `fig.write_html(path)`",
	"plotly.write_image(engine)":    "leave it out",
	"altair.vegalite.v5":            "`import altair`",
	"sklearn.OneHotEncoder(sparse)": "`sparse_output=`", "sklearn.get_feature_names": "`get_feature_names_out()`",
	"sklearn.(normalize)": "`make_pipeline(StandardScaler(), …)`", "sklearn.(squared)": "`root_mean_squared_error`",
	"sklearn.(base_estimator)": "`estimator=`", "sklearn.(fit_params)": "`params=`",
	"sklearn.(needs_proba)": "`make_scorer(…, response_method=\"predict_proba\")`", "sklearn.KMeans(n_jobs)": "leave it out",
	"sklearn.AdaBoostClassifier(algorithm)": "leave it out", "sklearn.AgglomerativeClustering(affinity)": "`metric=`",
	"sklearn.TSNE(n_iter)": "`max_iter=`", "sklearn.LogisticRegression(multi_class)": "leave it out, or `OneVsRestClassifier(…)` for \"ovr\"",
	"sklearn.from_predictions(y_pred)": "`y_score=`", "sklearn.metrics.plot_confusion_matrix": "`ConfusionMatrixDisplay.from_estimator`",
	"sklearn.metrics.plot_roc_curve":              "`RocCurveDisplay.from_estimator`",
	"sklearn.metrics.plot_precision_recall_curve": "`PrecisionRecallDisplay.from_estimator`", "sklearn.metrics.SCORERS": "`get_scorer_names()`",
	"sklearn.inspection.plot_partial_dependence": "`PartialDependenceDisplay.from_estimator`", "sklearn.externals.joblib": "`import joblib`",
	"sklearn.cross_validation": "`sklearn.model_selection`", "sklearn.grid_search": "`sklearn.model_selection`",
	"statsmodels.tsa.api.ARMA": "`ARIMA(y, order=(p, 0, q))`", "statsmodels.tsa.api.arima_model": "`sm.tsa.ARIMA`",
	"statsmodels.formula.api.OLS": "`smf.ols`", "statsmodels.stats.diagnostic.het_breushpagan": "`het_breuschpagan`",
	"statsmodels.fit(disp)": "leave it out", "statsmodels.ExponentialSmoothing(damped)": "`damped_trend=`",
	"statsmodels.ExponentialSmoothing(smoothing_level)": "`.fit(smoothing_level=…)`", "statsmodels.seasonal_decompose(freq)": "`period=`",
	"statsmodels.acf(unbiased)": "`adjusted=`", "statsmodels.grangercausalitytests(verbose)": "leave it out",
	"sqlalchemy.execute": "`with engine.begin() as c: c.execute(sa.text(…))`", "sqlalchemy.table_names": "`sa.inspect(engine).get_table_names()`",
	"sqlalchemy.has_table": "`sa.inspect(engine).has_table(name)`", "sqlalchemy.engine.RowProxy": "`Row`",
	"sqlalchemy.MetaData(bind)": "leave it out, and give the engine to `create_all`, `reflect` and `autoload_with`",
	"polars.groupby":            "`group_by`", "polars.with_column": "`with_columns`", "polars.apply": "`map_elements` (of rows `map_rows`, of groups `map_groups`)",
	"polars.cumsum": "`cum_sum`", "polars.cumcount": "`cum_count`", "polars.is_first": "`is_first_distinct`", "polars.is_not": "`~`",
	"polars.suffix": "`name.suffix`", "polars.prefix": "`name.prefix`", "polars.keep_name": "`name.keep()`", "polars.map_dict": "`replace_strict`",
	"polars.groupby_dynamic": "`group_by_dynamic`", "polars.groupby_rolling": "`rolling`", "polars.frame_equal": "`equals`",
	"polars.insert_at_idx": "`insert_column`", "polars.shift_and_fill": "`shift(n, fill_value=…)`", "polars.clip_min": "`clip(lower_bound=…)`",
	"polars.clip_max": "`clip(upper_bound=…)`", "polars.DateTimeNameSpace.days": "`total_days()`", "polars.DateTimeNameSpace.hours": "`total_hours()`", "polars.DateTimeNameSpace.minutes": "`total_minutes()`",
	"polars.DateTimeNameSpace.seconds": "`total_seconds()`", "polars.StringNameSpace.json_extract": "`json_decode`", "polars.sort(reverse)": "`descending=`",
	"polars.rank(reverse)": "`descending=`", "polars.read_csv(sep)": "`separator=`", "polars.write_csv(sep)": "`separator=`",
	"polars.write_csv(has_header)": "`include_header=`", "polars.strptime(fmt)": "`format=`", "polars.sample(frac)": "`fraction=`",
	"polars.shift(periods)": "`n=`", "polars.date_range(name)": "`.alias(name)`",
	"duckdb.typing": "`duckdb.sqltypes`", "duckdb.functional": "`duckdb.func`", "duckdb.arrow": "`to_arrow_table()`",
	"pypdf.PdfFileReader": "`PdfReader`", "pypdf.PdfFileWriter": "`PdfWriter`", "pypdf.PdfMerger": "`PdfWriter`, which has `append`",
	"pypdf.PdfFileMerger": "`PdfWriter`, which has `append`", "pypdf.getNumPages": "`len(reader.pages)`", "pypdf.numPages": "`len(reader.pages)`",
	"pypdf.getPage": "`reader.pages[i]`", "pypdf.extractText": "`extract_text()`", "pypdf.isEncrypted": "`is_encrypted`",
	"pypdf.documentInfo": "`metadata`", "pypdf.getDocumentInfo": "`metadata`", "pypdf.addPage": "`add_page`", "pypdf.addBookmark": "`add_outline_item`",
	"pypdf.appendPagesFromReader": "`append`", "pypdf.mediaBox": "`mediabox`", "pypdf.rotateClockwise": "`rotate(90)`", "pypdf.mergePage": "`merge_page`",
	"pypdf.encrypt(user_pwd)": "`user_password=`",
	"networkx.info":           "`print(G)`", "networkx.to_numpy_matrix": "`nx.to_numpy_array`", "networkx.from_numpy_matrix": "`nx.from_numpy_array`",
	"networkx.to_scipy_sparse_matrix": "`nx.to_scipy_sparse_array`", "networkx.from_pandas_dataframe": "`nx.from_pandas_edgelist`",
	"networkx.connected_component_subgraphs": "`[G.subgraph(c) for c in nx.connected_components(G)]`", "networkx.write_gpickle": "`pickle.dump(G, file)`",
	"networkx.read_gpickle": "`pickle.load(file)`", "networkx.pagerank_numpy": "`nx.pagerank`", "networkx.pagerank_scipy": "`nx.pagerank`",
	"networkx.node": "`G.nodes[n]`", "networkx.nodes_iter": "`G.nodes`", "networkx.selfloop_edges": "`nx.selfloop_edges(G)`",
	"networkx.add_path": "`nx.add_path(G, nodes)`", "networkx.add_cycle": "`nx.add_cycle(G, nodes)`", "networkx.DegreeView.values": "`dict(G.degree()).values()`",
	"networkx.DegreeView.items": "`dict(G.degree()).items()`", "networkx.node_link_data(link)": "`edges=`",
	"IPython.core.display.display":           "`from IPython.display import display`",
	"IPython.core.display.clear_output":      "`from IPython.display import clear_output`",
	"IPython.display.set_matplotlib_formats": "`from matplotlib_inline.backend_inline import set_matplotlib_formats`",
	"google.generativeai":                    "`from google import genai`, `genai.Client(api_key=…).models.generate_content(model=…, contents=…)`",
	"google.genai.configure":                 "`genai.Client(api_key=…)`", "google.genai.GenerativeModel": "`client.models.generate_content(model=…, contents=…)`",
	"urllib3.Retry(method_whitelist)": "`allowed_methods=`",
	"httpx.Client(proxies)":           "`proxy=`", "httpx.AsyncClient(proxies)": "`proxy=`",
	"PIL.Image.ANTIALIAS": "`Image.LANCZOS`", "PIL.Image.LINEAR": "`Image.BILINEAR`", "PIL.Image.CUBIC": "`Image.BICUBIC`",
	"PIL.ImageMath.eval": "`ImageMath.lambda_eval`", "PIL.textsize": "`textbbox((0, 0), text)`",
	"PIL.multiline_textsize": "`multiline_textbbox((0, 0), text)`", "PIL.FreeTypeFont.getsize": "`getbbox(text)`", "PIL._getexif": "`getexif()`",
	"bokeh.layouts.widgetbox": "`column`", "bokeh.models.widgets.Panel": "`bokeh.models.TabPanel`",
	"bokeh.models.FuncTickFormatter": "`CustomJSTickFormatter`", "bokeh.tile_providers": "`add_tile(name)`",
	"h5py.Dataset.value":     "`dataset[()]`",
	"pydantic.constr(regex)": "`pattern=`",
	"jinja2.Markup":          "`markupsafe.Markup`", "jinja2.contextfilter": "`jinja2.pass_context`",
	"lightgbm.train(early_stopping_rounds)": "`callbacks=[lgb.early_stopping(n)]`", "lightgbm.train(verbose_eval)": "`callbacks=[lgb.log_evaluation(n)]`",
	"lightgbm.fit(early_stopping_rounds)": "`callbacks=[lgb.early_stopping(n)]`", "lightgbm.fit(verbose)": "`LGBMRegressor(verbose=-1)`",
}

// changes are the rules for code that was right with the versions of libraries from before.
var changes = []rule{
	{re(`\A\w+: (?:[Mm]odule '([\w.]{1,60})' has no attribute '(\w{1,60})'\n|cannot import name '(\w{1,60})' from '([\w.]{1,60})' \([^\n]*-packages/)`), true, func(s stumble, found []string) string {
		return s.instead(cmp.Or(found[1], found[4]), cmp.Or(found[2], found[3]))
	}},
	{re(`\A\w+: No module named '([\w.]{1,60})\.(\w{1,60})'`), true, func(s stumble, found []string) string { return s.instead(found[1], found[2]) }},
	{re(`\A\w+: (?:'(?:[\w.]{1,60}\.)?(?:Expr)?(\w{1,60})' object|type object '(\w{1,60})') has no attribute '(\w{1,60})'[^\x00]*\n\((\w{1,60}) `), true, func(s stumble, found []string) string {
		return cmp.Or(s.instead(found[4], found[3]), s.instead(found[4]+"."+cmp.Or(found[1], found[2]), found[3]))
	}},
	{re(`\A\w+: (?:(?:\w{1,60}\.)*?(\w{1,60})(?:\.__(?:init|new)__)?\(\) )?got an unexpected keyword argument '(\w{1,60})'[^\x00]*\n\((\w{1,60}) `), true, func(s stumble, found []string) string {
		argument := "(" + found[2] + ")"
		return cmp.Or(s.instead(found[3], found[1]+argument), s.instead(found[3], argument))
	}},
	refusal("", `TypeError: only 0-dimensional arrays can be converted to Python scalars`,
		"NumPy 2.5 converts arrays without dimensions alone: write `a.item()`, or take an element."),
	refusal("", `ValueError: Both input arrays must be \(arrays of\) 3-dimensional vectors`,
		"NumPy 2.5 has no `cross` of flat vectors: write `a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]`."),
	refusal("", `OverflowError: Python integer -?\d+ out of bounds for u?int\d+`,
		"NumPy 2 does not wrap integers around, and `np.uint8(1) + 300` is no uint16: write `np.array(n).astype(dtype)`, or take a wider dtype."),
	refusal("", `ValueError: assignment destination is read-only`,
		"The array is read-only, as pandas 3 gives out its own (`.values`, `to_numpy()`): change a copy, `a = a.copy()`."),
	refusal("pandas", `ValueError: Invalid frequency: \d*A(?:-[A-Z]{3})?\.`,
		"pandas 3 names the end of a year \"YE\" (of a month \"ME\", of a quarter \"QE\"), and its start \"YS\"."),
	refusal("pandas", `TypeError: Invalid value '[^\x00]*' for dtype '(?:u?int|float|bool|str|datetime)[^\n]*'`,
		"pandas 3 keeps a column's dtype when a value is set: convert it first, as by `df[c] = df[c].astype(float)` or `astype(object)`."),
	refusal("pandas", `TypeError: (?:Cannot perform reduction '\w+' with string dtype|dtype 'str' does not support operation '\w+')`,
		"pandas 3 leaves no text columns out: write `numeric_only=True`, or name the columns."),
	refusal("pandas", `TypeError: Only booleans and lists are accepted for the 'parse_dates' parameter`,
		"pandas 3 joins no columns to a date: write `pd.to_datetime(df[[\"year\", \"month\", \"day\"]])` after it."),
	refusal("pandas", `ValueError: (?:errors must be one of 'raise', or 'coerce'|invalid error value specified)`,
		"pandas 3 has no errors=\"ignore\": write `errors=\"coerce\"`, or catch the error."),
	refusal("pandas", `TypeError: \w+\.\w+\(\) takes (?:from \d to )?\d positional arguments? but \d (?:was|were) given`,
		"pandas 3 takes most arguments by name alone, as in `df.drop(columns=\"a\")`, `df.to_csv(path, sep=\";\")`, `df.to_sql(name, con, if_exists=\"replace\")`."),
	refusal("pandas", `ValueError: fill_method must be None`,
		"pandas 3 fills nothing in: write `s.ffill().pct_change()`."),
	refusal("pandas", `(?:File)?NotFoundError: \[Errno 2\] No such file or directory: '\s*[\[{<]`,
		"pandas 3 reads no text that is given for a path: write `io.StringIO(text)`."),
	refusal("pandas", `OptionError: No such keys\(s\): 'mode\.use_inf_as_n`,
		"pandas 3 has no such option: write `df.replace([np.inf, -np.inf], np.nan)`."),
	refusal("pandas", `ValueError: Value must be a nonnegative integer or None`,
		"pandas 3 takes None, and no -1, for no limit."),
	refusal("", `AttributeError: property '(?:book|sheets)' of '\w+' object has no setter`,
		"pandas 3 opens the file by itself: write `pd.ExcelWriter(path, engine=\"openpyxl\", mode=\"a\", if_sheet_exists=\"overlay\")`."),
	refusal("matplotlib", `OSError: 'seaborn(?:-\w+)*' is not a valid package style`,
		"Matplotlib 3.11 has these styles as \"seaborn-v0_8-whitegrid\" and the like; `sns.set_theme()` sets seaborn's own."),
	refusal("matplotlib", `ValueError: keyword grid_b is not recognized`,
		"Matplotlib 3.11 has `visible=` for `b=`."),
	refusal("matplotlib", `TypeError: tight_layout\(\) takes 0 positional arguments`,
		"Matplotlib 3.11 takes it by name: `tight_layout(pad=1)`."),
	refusal("seaborn", `TypeError: \w+\(\) (?:takes from 0 to 1 positional arguments|got multiple values for argument 'data')`,
		"seaborn 0.13 takes them by name: `sns.scatterplot(data=df, x=\"a\", y=\"b\")`."),
	refusal("plotly", `ValueError: Invalid property specified for object of type plotly\.graph_objs\.[\w.]+: 'title(?:font|side|position|offset)'`,
		"plotly 7 has it in the title: write `title=dict(text=…, font=…)` (or side, position, offset)."),
	refusal("plotly", `ValueError: (?:Invalid property specified for object of type plotly\.graph_objs\.[\w.]+: 'mapbox|Unsupported subplot type: 'mapbox)`,
		"plotly 7 has `map` for `mapbox`, in all names: `map_style=\"open-street-map\"`, `map=dict(zoom=3)`."),
	refusal("plotly", `ValueError: Invalid property specified for object of type plotly\.graph_objs\.[\w.]+: 'transforms'`,
		"plotly 7 has no transforms: filter, group and sum up the data before, with pandas."),
	refusal("sklearn", `InvalidParameterError: [^\n]* Got '(?:deviance|log)' instead`,
		"scikit-learn calls it 'log_loss' now."),
	refusal("sklearn", `InvalidParameterError: [^\n]* Got '(?:ls|mse|squared_loss|least_squares)' instead`,
		"scikit-learn calls it 'squared_error' now."),
	refusal("sklearn", `InvalidParameterError: [^\n]* Got '(?:lad|mae|least_absolute_deviation)' instead`,
		"scikit-learn calls it 'absolute_error' now."),
	refusal("sklearn", `InvalidParameterError: The 'max_features' [^\n]* Got 'auto' instead`,
		"scikit-learn has no 'auto' here: write 'sqrt' for a classifier, and 1.0 for a regressor."),
	refusal("sklearn", `InvalidParameterError: The 'penalty' [^\n]* Got 'none' instead`,
		"scikit-learn 1.9 has no 'none', and gives `penalty` up: write `C=np.inf`."),
	refusal("sklearn", `InvalidParameterError: The 'cv' [^\n]* Got 'prefit' instead`,
		"scikit-learn 1.9 writes `CalibratedClassifierCV(FrozenEstimator(model))`, with `from sklearn.frozen import FrozenEstimator`."),
	refusal("sqlalchemy", `ObjectNotExecutableError: Not an executable object:`,
		"SQLAlchemy 2 runs no text as it is: write `connection.execute(sqlalchemy.text(query))`; `engine.begin()` commits at its end, `connect()` does not."),
	refusal("sqlalchemy", `ArgumentError: expected schema argument to be a string, got <class 'sqlalchemy\.engine`,
		"SQLAlchemy 2 binds no MetaData: write `MetaData()`, and give the engine to `create_all` or `reflect`."),
	refusal("sqlalchemy", `TypeError: Additional arguments should be named <dialectname>_<argument>, got 'autoload'`,
		"SQLAlchemy 2 takes `autoload_with=engine` alone."),
	refusal("sqlalchemy", `TypeError: \w+\.(?:insert|update|delete|select)\(\) takes 1 positional argument but`,
		"SQLAlchemy 2 takes nothing there: write `.values(…)` and `.where(…)` behind it."),
	refusal("sqlalchemy", `TypeError: tuple indices must be integers or slices, not str`,
		"SQLAlchemy 2 has rows that are tuples: write `row.name`, `row._mapping[\"name\"]`, or `result.mappings()`."),
	refusal("sqlalchemy", `AttributeError: Could not locate column in row for column '(?:items|keys|values)'`,
		"SQLAlchemy 2 has rows that are tuples: write `row._mapping.items()`, or `result.mappings()`."),
	refusal("", `TypeError: 'ExprMapNameSpace' object is not callable`,
		"polars 2 calls it `map_batches` (and `map_elements` for each value)."),
	refusal("", `TypeError: 'ExprListNameSpace' object is not callable`,
		"polars 2 calls it `implode()`."),
	refusal("networkx/readwrite", `KeyError: 'edges'`,
		"NetworkX 3.7 calls them \"edges\": write `nx.node_link_graph(data, edges=\"links\")` for data that has \"links\"."),
	refusal("bokeh", `KeyError: 'legend'`,
		"Bokeh 3 has `legend_label=` (or `legend_field=`) for `legend=`."),
	refusal("", `TypeError: 'KeysViewHDF5' object is not subscriptable`,
		"h5py 3 has views here: write `list(f.keys())`."),
	refusal("", `InvalidInputException: Invalid Input Error: Map keys must be unique`,
		"A MAP has each key once: group by the key before, as in `select map(list(k), list(n)) from (select k, sum(n) n from t group by k)`."),
	refusal("polars", `ComputeError: (?:parquet: File out of specification: LogicalType union has no variant set|datatype ext\[\S*\] cannot be written)`,
		"polars has no GEOMETRY and VARIANT: let DuckDB write text of them, as in `duckdb.sql(\"select g::VARCHAR g from 'a.parquet'\").pl()`."),
	refusal("", `ArrowInvalid: Value \d+ has non-zero nanoseconds`,
		"datetime.time has no nanoseconds: keep Arrow's types, by `table.to_pandas(types_mapper=pd.ArrowDtype)` or `pd.read_parquet(path, dtype_backend=\"pyarrow\")`."),
	refusal("", `(?:NoSuchModuleError: Can't load plugin: sqlalchemy\.dialects:duckdb|ProgrammingError: [^\n]*"pg_catalog\.pg_collation" not found)`,
		"DuckDB needs no SQLAlchemy: write `duckdb.connect(path).sql(query).df()`. Its dialect, duckdb-engine, reads no schemas under SQLAlchemy 2.1."),
	refusal("", `PatsyError: [^\x00]*Error converting data to categorical: observation with value`,
		"The model was fitted without that level: predict without its rows, or fit it again with some."),
	refusal("yaml", `TypeError: load\(\) missing 1 required positional argument: 'Loader'`,
		"PyYAML 6 wants a loader: write `yaml.safe_load(text)`."),
}

// refusal makes the rule for a library's error: its name, the beginning of its message, and the library's folder, which the traceback shows.
// Empty: the message names the library.
func refusal(library, message, say string) rule {
	pattern := `\A(?:` + message + `)`
	if library != "" {
		pattern += `[^\x00]*\n(?:  \S[^\n]*/` + library + `/|\(` + library + ` )`
	}
	return rule{re(pattern), true, func(stumble, []string) string { return say }}
}

// source matches the kernel's last line of a traceback: the library and its version.
var source = regexp.MustCompile(`\n\(\w+ ([\w.+]{1,30})\)\n?\z`)

// instead names the replacement of a name of a module or library, or of a function's argument.
func (s stumble) instead(module, name string) string {
	write, ok := instead[module+"."+name]
	if !ok {
		return ""
	}
	if strings.HasPrefix(write, "`") {
		write = "write " + write
	}
	library, _, isInside := strings.Cut(module, ".")
	library = cmp.Or(distributions[library], library)
	if found := source.FindStringSubmatch(s.text); found != nil {
		library += " " + found[1]
	}
	if function, argument, ok := strings.Cut(name, "("); ok {
		if strings.HasPrefix(function, "_") {
			function = ""
		}
		return cmp.Or(function, "The function") + " of " + library + " takes no `" + strings.TrimSuffix(argument, ")") + "`: " + write + "."
	}
	if isInside {
		name = module + "." + name
	}
	return library + " has no `" + name + "`: " + write + "."
}
