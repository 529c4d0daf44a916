package sandbox

import "testing"

func TestTheFileThatIsMeant(t *testing.T) {
	files := []string{"output/report.csv", "input/sales.csv", "input/2024/Sales.csv", "input/2025/sales.csv", "input/Zu\u0308rich.csv", "presales.csv"}
	for asked, want := range map[string]string{
		"sales.csv":                        "input/sales.csv",
		"/mnt/data/sales.csv":              "input/sales.csv",
		"/mnt/user-data/uploads/sales.csv": "input/sales.csv",
		"./data/2025/sales.csv":            "input/2025/sales.csv",
		"2024/sales.csv":                   "input/2024/Sales.csv",
		`C:\Users\me\REPORT.CSV`:           "output/report.csv",
		"z\u00fcrich.csv":                  "input/Zu\u0308rich.csv",
		"les.csv":                          "",
		"input":                            "",
		"":                                 "",
	} {
		var found string
		most := 0
		for _, file := range files {
			if n := likeness(file, asked); n > most {
				found, most = file, n
			}
		}
		if found != want {
			t.Errorf("%q: got %q, want %q", asked, found, want)
		}
	}
}
