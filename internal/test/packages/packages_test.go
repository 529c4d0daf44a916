//go:build unix

// Package packages tries the most used packages of Python in the real program, from a real index, and prints a table.
// `make test-packages` runs it, and no other test does: it downloads a gigabyte.
package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// use is what a person does first with a package.
type use struct {
	name    string
	install string // empty: it is in the image
	steps   []step
	result  string // for the table
}

// step is code, and what its answer has.
type step struct{ code, want string }

const (
	key     = "--pass-through-env "
	most    = 4000 // characters of an answer; more is no answer to any of these
	patient = "10m"
)

var uses = []use{
	{"polars", "", []step{{`import polars as pl
df = pl.DataFrame({"city": ["Bern", "Basel", "Bern"], "people": [1, 2, 3]})
df.group_by("city").agg(pl.col("people").sum()).sort("city")`, "│ Bern  ┆ 4 "}}, "a table grouped and shown"},
	{"scikit-learn", "", []step{
		{`from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X, y = load_iris(return_X_y=True)
make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)`, "Pipeline(steps=[("},
		{`from sklearn.datasets import fetch_california_housing
fetch_california_housing(n_retries=1)`, "sklearn.datasets.load_*"},
	}, "a pipeline fitted; `fetch_*` needs the internet, and the hint names data that are there"},
	{"xgboost", "xgboost", []step{{`from sklearn.datasets import load_iris
import xgboost
X, y = load_iris(return_X_y=True)
print(xgboost.XGBClassifier(n_estimators=9).fit(X, y).score(X, y) > 0.9)`, "True"}}, "a classifier fitted"},
	{"lightgbm", "", []step{{`from sklearn.datasets import load_iris
import lightgbm
X, y = load_iris(return_X_y=True)
print(lightgbm.LGBMClassifier(n_estimators=9, verbose=-1).fit(X, y).score(X, y) > 0.9)`, "True"}}, "a classifier fitted"},
	{"opencv", "opencv-python-headless", []step{
		{`import cv2, numpy
image = numpy.zeros((100, 200, 3), "uint8")
cv2.circle(image, (100, 50), 30, (0, 255, 0), -1)
cv2.imwrite("output/edges.png", cv2.Canny(image, 100, 200))`, "output/edges.png"},
		{`cv2.imshow("edges", image)`, "no screen"},
	}, "edges found and saved; `opencv-python` needs a screen's libraries, and the hint names `opencv-python-headless`"},
	{"nltk", "nltk", []step{
		{`from nltk.stem import PorterStemmer
PorterStemmer().stem("running")`, "'run'"},
		{`import nltk
nltk.word_tokenize("Two words.")`, "NLTK's data are not on PyPI"},
	}, "words stemmed; corpora are not on PyPI, and the hint says how they get in"},
	{"spacy", "spacy", []step{
		{`import spacy
[token.text for token in spacy.blank("en")("Two words.")]`, "['Two', 'words', '.']"},
		{`spacy.load("en_core_web_sm")`, "spaCy's models are not on PyPI"},
	}, "a text split; models are not on PyPI, and the hint says how they get in"},
	{"transformers", "transformers", []step{
		{`from transformers import BertConfig
BertConfig().hidden_size`, "768"},
		{`from transformers import AutoModel
AutoModel.from_pretrained("bert-base-uncased")`, "--python-image"},
	}, "configurations and tokenizers; models need PyTorch, which is over the size limit, and files of the hub: hints say so"},
	{"openai", "openai", []step{{`from openai import OpenAI
OpenAI()`, key + "OPENAI_API_KEY"}}, "imported; it has no key, and the hint says how one gets in"},
	{"anthropic", "anthropic", []step{{`import anthropic
anthropic.Anthropic().messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": "Hello"}])`, key + "ANTHROPIC_API_KEY"}}, "imported; it has no key, and the hint says how one gets in"},
	{"langchain", "langchain", []step{
		{`from langchain_core.prompts import ChatPromptTemplate
ChatPromptTemplate.from_template("You are {role}").invoke({"role": "a cook"})`, "You are a cook"},
		{`from langchain.chat_models import init_chat_model
init_chat_model("gpt-5", model_provider="openai")`, "langchain_openai is not installed"},
	}, "a prompt filled in; a model needs the package of its provider, and a key"},
	{"streamlit", "streamlit", []step{{`open("app.py", "w").write("import streamlit as st\nst.title('Hello')")
from streamlit.testing.v1 import AppTest
AppTest.from_file("app.py").run().title[0].value`, "'Hello'"}}, "an app run by `AppTest`; nobody can open the page of a server in the sandbox"},
	{"fastapi", "fastapi", []step{{`from fastapi import FastAPI
from fastapi.testclient import TestClient
app = FastAPI()
@app.get("/double/{n}")
def double(n: int): return {"double": 2 * n}
TestClient(app).get("/double/21").json()`, "{'double': 42}"}}, "a request answered to `TestClient`"},
	{"pydantic", "", []step{{`from pydantic import BaseModel
class Item(BaseModel):
    name: str
    price: float = 1
Item(name="a").model_dump_json()`, `{"name":"a","price":1.0}`}, {`Item(name=None)`, "Input should be a valid string"}}, "a model filled, and refused with its own words"},
	{"geopandas", "geopandas", []step{{`import geopandas
from shapely.geometry import Point
places = geopandas.GeoDataFrame({"n": [1]}, geometry=[Point(8.5, 47.4).buffer(1)], crs="EPSG:4326")
places.to_file("output/places.geojson")
places.to_crs(3857).plot()`, "output/figure-1.png"}}, "a shape projected, drawn and saved"},
	{"shapely", "shapely", []step{{`from shapely.geometry import Point
Point(0, 0).buffer(1)`, "output/image-1.svg"}}, "a shape shown"},
	{"pymupdf", "pymupdf", []step{{`from reportlab.pdfgen import canvas
page = canvas.Canvas("output/a.pdf")
page.drawString(100, 700, "Hello PDF")
page.save()
import pymupdf
pymupdf.open("output/a.pdf")[0].get_pixmap().save("output/a.png")
print(pymupdf.open("output/a.pdf")[0].get_text())`, "Hello PDF"}}, "the text of a page read, and its picture saved"},
	{"plotly", "", []step{{`import plotly.express as px
px.bar(px.data.tips(), x="day", y="tip").show()`, "output/figure-1.png"}}, "a figure shown, as a picture and a page"},
	{"kaleido", "kaleido", []step{
		{`import plotly.express as px
figure = px.bar(x=["a", "b"], y=[1, 3])
figure.write_image("output/bars.png")`, "output/bars.png"},
		{`figure.write_image("output/bars.svg")`, "output/bars.svg"},
	}, "figures saved as PNG and SVG, by the session's browser: without kaleido too"},
	{"statsmodels", "", []step{{`import statsmodels.api as sm
import statsmodels.formula.api as smf
smf.ols("affairs ~ age", sm.datasets.fair.load_pandas().data).fit().summary()`, "OLS Regression Results"}}, "a model fitted and its summary shown"},
}

func TestPackages(t *testing.T) {
	if os.Getenv("CODE_SANDBOX_PACKAGES") == "" {
		t.Skip("it takes minutes and a package index: make test-packages runs this")
	}
	program := filepath.Join(t.TempDir(), "code-sandbox-mcp")
	out, err := exec.Command("go", "build", "-o", program, "github.com/code-sandbox-mcp/code-sandbox-mcp").CombinedOutput()
	must.Hold(t, err == nil, "build the program: %v\n%s", err, out)
	client := mcp.NewClient(&mcp.Implementation{Name: "packages", Version: "1"}, nil)
	command := exec.Command(program, "--log-level", "warn", "--state-dir", t.TempDir(), "--spares", "0", "--soft-wait", patient, "--run-timeout", patient)
	command.Stderr = os.Stderr
	session := must.Get(client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil))(t)
	defer func() { _ = session.Close() }()
	fmt.Println("| package | comes from | its first use |\n|---|---|---|")
	for _, u := range uses {
		t.Run(u.name, func(t *testing.T) {
			from := u.try(t, session)
			if t.Failed() {
				u.result = "**fails**"
			}
			fmt.Printf("| %s | %s | %s |\n", u.name, from, u.result)
		})
	}
}

// try installs a package and takes its first steps in a session of its own. It returns where the package comes from.
func (u use) try(t *testing.T, session *mcp.ClientSession) (from string) {
	call := func(tool string, arguments map[string]any) string {
		arguments["session_id"] = u.name
		res := must.Get(session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments}))(t)
		return res.Content[0].(*mcp.TextContent).Text
	}
	from = "the image"
	if u.install != "" {
		installed := call("install_packages", map[string]any{"language": "python", "packages": []string{u.install}})
		n := strings.Count("\n"+installed, "\ninstalled ")
		should.Hold(t, n != 0, "%v", installed)
		from = fmt.Sprintf("`%s`, new packages: %d", u.install, n)
	}
	for _, s := range u.steps {
		text := call("run_python_code", map[string]any{"code": s.code})
		should.Hold(t, strings.Contains(text, s.want) && len(text) <= most && !strings.Contains(text, "&lt;"),
			"%q is not in an answer of %d characters:\n%.2000s", s.want, len(text), text)
	}
	call("close_session", map[string]any{})
	return from
}
