"""The data sets of the analyses, all of them public and part of packages that the image has, and which analyses there are."""

STATSMODELS = "from statsmodels import datasets as shipped"
PLOTLY = "import plotly.data as shipped"
SKLEARN = "import sklearn.datasets as shipped"


def of(package, load, x, y, group, k):
    """How a set is loaded, two columns of numbers, one of groups, and a number that the analyses compute with."""
    if package is STATSMODELS:
        load = f"shipped.{load}.load_pandas().data"
    elif package is SKLEARN:
        load = f"shipped.load_{load}(as_frame=True).frame"
    else:
        load = f"pd.DataFrame(shipped.{load}())"
    if ":" in group:  # one that is made of others
        group, made = group.split(":", 1)
        load += f".assign({group}=lambda d: {made})"
    return {"import": package, "load": load, "x": x, "y": y, "g": group, "k": k}


SETS = {
    "tips": of(PLOTLY, "tips", "total_bill", "tip", "day", 3),
    "gapminder": of(PLOTLY, "gapminder", "gdpPercap", "lifeExp", "continent", 7),
    "experiment": of(PLOTLY, "experiment", "experiment_1", "experiment_2", "group", 5),
    "carshare": of(PLOTLY, "carshare", "centroid_lat", "car_hours", "part:d.peak_hour // 6", 4),
    "election": of(PLOTLY, "election", "Coderre", "Bergeron", "winner", 9),
    "stocks": of(PLOTLY, "stocks", "GOOG", "AAPL", "quarter:d.date.astype(str).str[5:7].astype(int) // 4", 2),
    "iris": of(SKLEARN, "iris", "sepal length (cm)", "petal length (cm)", "target", 6),
    "wine": of(SKLEARN, "wine", "alcohol", "flavanoids", "target", 8),
    "breast_cancer": of(SKLEARN, "breast_cancer", "mean radius", "mean texture", "target", 3),
    "diabetes": of(SKLEARN, "diabetes", "bmi", "target", "old:(d.age > 0).astype(int)", 5),
    "linnerud": of(SKLEARN, "linnerud", "Situps", "Weight", "fit:(d.Chins > 10).astype(int)", 2),
    "longley": of(STATSMODELS, "longley", "GNP", "TOTEMP", "decade:d.YEAR // 10", 4),
    "macrodata": of(STATSMODELS, "macrodata", "realgdp", "realcons", "decade:d.year // 10", 6),
    "star98": of(STATSMODELS, "star98", "LOWINC", "NABOVE", "level:d.LOWINC // 25", 11),
    "sunspots": of(STATSMODELS, "sunspots", "YEAR", "SUNACTIVITY", "century:d.YEAR // 100", 11),
    "nile": of(STATSMODELS, "nile", "year", "volume", "era:d.year // 25", 5),
    "elnino": of(STATSMODELS, "elnino", "JAN", "JUL", "decade:d.YEAR // 10", 3),
    "fair": of(STATSMODELS, "fair", "age", "yrs_married", "religious", 13),
    "grunfeld": of(STATSMODELS, "grunfeld", "value", "invest", "firm", 4),
    "anes96": of(STATSMODELS, "anes96", "age", "income", "educ", 7),
    "engel": of(STATSMODELS, "engel", "income", "foodexp", "level:d.income // 1000", 8),
    "statecrime": of(STATSMODELS, "statecrime", "poverty", "violent", "level:d.urban // 25", 6),
    "ccard": of(STATSMODELS, "ccard", "INCOME", "AVGEXP", "OWNRENT", 5),
    "copper": of(STATSMODELS, "copper", "COPPERPRICE", "WORLDCONSUMPTION", "decade:d.TIME // 10", 2),
    "scotland": of(STATSMODELS, "scotland", "UNEMPF", "YES", "level:d.MOR // 100", 3),
    "heart": of(STATSMODELS, "heart", "age", "survival", "censors", 9),
    "committee": of(STATSMODELS, "committee", "SIZE", "BILLS104", "PRESTIGE", 4),
    "modechoice": of(STATSMODELS, "modechoice", "invc", "ttme", "mode", 12),
    "spector": of(STATSMODELS, "spector", "GPA", "TUCE", "GRADE", 2),
    "randhie": of(STATSMODELS, "randhie", "disea", "mdvis", "hlthg", 10),
}

# The package that is upgraded: a mean without the ends, and then one with the ends drawn in.
TRIMMED = {
    "1.0": "VERSION = '1.0'\n\n\ndef mean(values, share=0.1):\n    v = sorted(values)\n    k = int(len(v) * share)\n    v = v[k:len(v) - k]\n    return sum(v) / len(v)\n",
    "2.0": "VERSION = '2.0'\n\n\ndef mean(values, share=0.1):\n    v = sorted(values)\n    k = int(len(v) * share)\n    v = [v[k]] * k + v[k:len(v) - k] + [v[-k - 1]] * k\n    return sum(v) / len(v)\n",
}

ANALYSES = [
    f"{template}:{name}"
    for template, names in {
        "clean": "tips fair statecrime",
        "regress": "engel longley ccard",
        "groups": "gapminder grunfeld anes96",
        "series": "sunspots nile macrodata",
        "classify": "iris wine breast_cancer",
        "sql": "modechoice star98 randhie",
        "relay": "experiment carshare scotland",
        "scenario": "diabetes copper election",
        "bootstrap": "heart spector linnerud",
        "report": "stocks elnino committee",
        "short": "tips gapminder nile",
    }.items()
    for name in names.split()
]
