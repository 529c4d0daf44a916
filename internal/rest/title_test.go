package rest

import (
	"strings"
	"testing"
)

func TestTitles(t *testing.T) {
	for code, want := range map[string]string{
		"":                                 "",
		"x = 1\ny = 2":                     "x = 1",
		"import numpy as np\n\nnp.ones(3)": "np.ones(3)",
		"import os; print(os.getcwd())":    "print(os.getcwd())",
		"import os":                        "import os",
		"from a import (\n    b,\n    c,\n)\nb()":                        "b()",
		"import {\n  a,\n  b\n} from 'x';\na(b)":                         "a(b)",
		"import a from 'a'\nconst b = require('b')\nb(a)":                "b(a)",
		"const {x} = await import('x');\nlet y = x()":                    "let y = x()",
		"'use strict';\n// Add the numbers\n1 + 1":                       "Add the numbers",
		"# Load the sales\nimport pandas as pd\npd.read_csv('x')":        "Load the sales",
		"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nprint(1)":       "print(1)",
		"# %%\nimport x\n%matplotlib inline\nx.plot()":                   "x.plot()",
		"\"\"\"\nThe report.\n\"\"\"\nreport()":                          "The report.",
		"/* Draw it */ draw()":                                           "Draw it",
		"#######\n# Totals\n#######":                                     "Totals",
		"import a\ntry:\n    a.b()\nexcept: pass":                        "a.b()",
		"%pip install polars":                                            "%pip install polars",
		"let a = require('a'); let b = 1; b":                             "let b = 1; b",
		"import a\n6 * 7":                                                "6 * 7",
		"6 * 7":                                                          "6 * 7",
		"imported = 1":                                                   "imported = 1",
		"print('" + strings.Repeat("x", 200) + "')":                      "print('" + strings.Repeat("x", maxTitle-7) + "…",
		"import a\n" + strings.Repeat("import b\n", 10_000) + "print(1)": "import a",
	} {
		if got := title(code); got != want {
			t.Errorf("%.60q: %q, want %q", code, got, want)
		}
	}
}
