package packages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestRulesThatCannotBeMeantAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules packages.Rules
		says  string // empty: they are right
	}{
		{"none", packages.Rules{}, ""},
		{"the defaults", packages.Rules{Mode: packages.On, Minimum: packages.DefaultMinimum}, ""},
		{"all of them", packages.Rules{Mode: packages.Listed, Allow: []string{"pypi:django", "npm:@aws-sdk/*", "scikit-*"}, Deny: []string{"*evil*"},
			DenySet: packages.Cautious, Minimum: []string{"npm:lodash>=4.17.21"}, MinAge: time.Hour}, ""},
		{"a mode", packages.Rules{Mode: "maybe"}, `--packages "maybe" is not off, listed or on`},
		{"a name", packages.Rules{Deny: []string{"a b"}}, `--packages-deny: "a b" is not the name of a package`},
		{"an option", packages.Rules{Deny: []string{"--index-url"}}, `--packages-deny: "--index-url" is not`},
		{"a name of the other kind", packages.Rules{Deny: []string{"pypi:@aws-sdk/*"}}, `--packages-deny: "pypi:@aws-sdk/*"`},
		{"a list without an end", packages.Rules{Mode: packages.Listed}, "--packages-allow names, which is empty"},
		{"a list that is not in force", packages.Rules{Allow: []string{"numpy"}}, "--packages-allow has no effect"},
		{"a set", packages.Rules{DenySet: "reckless"}, `--packages-deny-set "reckless"`},
		{"a minimum", packages.Rules{Minimum: []string{"numpy==1"}}, `"numpy==1" is not NAME>=VERSION`},
		{"a version of npm", packages.Rules{Minimum: []string{"npm:lodash>=4"}}, `"npm:lodash>=4" is not NAME>=VERSION`},
		{"a version of Python", packages.Rules{Minimum: []string{"numpy>=new"}}, `"numpy>=new" is not NAME>=VERSION`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := packages.NewPolicy(c.rules)
			should.Hold(t, (err == nil) == (c.says == "") && (err == nil || strings.Contains(err.Error(), c.says)), "got %v", err)
		})
	}
}

func policy(t testing.TB, rules packages.Rules) *packages.Policy {
	t.Helper()
	p := must.Get(packages.NewPolicy(rules))(t)
	return p
}

func TestTheSummarySaysWhatMayBeInstalled(t *testing.T) {
	for _, c := range []struct {
		rules packages.Rules
		want  string
	}{
		{packages.Rules{}, "Most are allowed, Python's as wheels alone; a refusal names its rule."},
		{packages.Rules{AllowSdist: true}, "Most are allowed; a refusal names its rule."},
		{packages.Rules{Mode: packages.Off}, "Nothing is installed from an index here; wheels and tarballs in /mnt/data are."},
		{packages.Rules{Mode: packages.Listed, Allow: []string{"numpy", "npm:@a/*"}}, "Only these may be installed: numpy, npm:@a/*."},
		{packages.Rules{Mode: packages.Listed, Allow: strings.Fields(strings.Repeat("a ", 21))}, "Only listed packages may be installed."},
	} {
		should.Equal(t, policy(t, c.rules).Summary(), c.want)
	}
}

func TestCheckNamesTheRuleThatRefuses(t *testing.T) {
	listed := packages.Rules{Mode: packages.Listed, Allow: []string{"Scikit_*", "npm:@aws-sdk/*", "npm:JSONStream"}}
	for _, c := range []struct {
		name      string
		rules     packages.Rules
		ecosystem packages.Ecosystem
		asked     string
		setting   string // empty: it is allowed
	}{
		{"on", packages.Rules{}, packages.PyPI, "anything", ""},
		{"off", packages.Rules{Mode: packages.Off}, packages.PyPI, "numpy", "--packages off"},
		{"listed", listed, packages.PyPI, "scikit.learn>=1", ""},
		{"listed in the other ecosystem", listed, packages.NPM, "scikit-learn", "--packages-allow"},
		{"listed by its scope", listed, packages.NPM, "@aws-sdk/client-s3@^3", ""},
		{"another scope", listed, packages.NPM, "@aws-sdk-evil/client-s3", "--packages-allow"},
		{"npm's names have a case", listed, packages.NPM, "jsonstream", "--packages-allow"},
		{"not listed", listed, packages.PyPI, "numpy", "--packages-allow"},
		{"denied in another spelling", packages.Rules{Deny: []string{"evil.twin"}}, packages.PyPI, "Evil__Twin[x]==1", "--packages-deny"},
		{"denied in one ecosystem", packages.Rules{Deny: []string{"npm:evil"}}, packages.PyPI, "evil", ""},
		{"denied though allowed", packages.Rules{Mode: packages.Listed, Allow: []string{"*"}, Deny: []string{"evil"}}, packages.NPM, "evil", "--packages-deny"},
		{"the deny set", packages.Rules{DenySet: packages.Cautious}, packages.PyPI, "azure-storage-blob", "--packages-deny-set"},
		{"the deny set in another spelling", packages.Rules{DenySet: packages.Cautious}, packages.PyPI, "CX.freeze", "--packages-deny-set"},
		{"the deny set is Python's", packages.Rules{DenySet: packages.Cautious}, packages.NPM, "docker", ""},
		{"allowed in spite of the deny set", packages.Rules{DenySet: packages.Cautious, Allow: []string{"cryptography"}}, packages.PyPI, "cryptography", ""},
		{"a version below the minimum", packages.Rules{Minimum: packages.DefaultMinimum}, packages.PyPI, "numpy==1.22.1", "--packages-minimum"},
		{"by its text", packages.Rules{Minimum: packages.DefaultMinimum}, packages.PyPI, "numpy===old", "--packages-minimum"},
		{"the minimum", packages.Rules{Minimum: packages.DefaultMinimum}, packages.PyPI, "numpy==1.22.2", ""},
		{"the minimum is Python's", packages.Rules{Minimum: packages.DefaultMinimum}, packages.NPM, "requests@0.3.0", ""},
		{"npm's minimum", packages.Rules{Minimum: []string{"npm:lodash>=4.17.21"}}, packages.NPM, "lodash@=v4.17.20", "--packages-minimum"},
		{"a file", packages.Rules{Mode: packages.Off}, packages.PyPI, "/mnt/data/demo-1.0-py3-none-any.whl", ""},
		{"a file of a denied package", packages.Rules{Deny: []string{"demo"}}, packages.PyPI, "/mnt/data/demo-1.0-py3-none-any.whl", "--packages-deny"},
		{"a source distribution", packages.Rules{}, packages.PyPI, "/mnt/data/demo-1.0.tar.gz", "--packages-allow-sdist"},
		{"a source distribution by permission", packages.Rules{AllowSdist: true}, packages.PyPI, "/mnt/data/demo-1.0.tar.gz", ""},
		{"a tarball", packages.Rules{}, packages.NPM, "/mnt/data/up/demo-1.0.0.tgz", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := policy(t, c.rules).Check(c.ecosystem, c.asked)
			if c.setting == "" {
				should.Equal(t, f, nil)
				return
			}
			if f == nil || f.Code != fault.PackageDenied || f.Fields["setting"] != c.setting || !strings.Contains(f.Message, c.setting) {
				t.Errorf("got %v", f)
			}
		})
	}
}

func TestRequirementsAreReadByTheRulesOfTheirEcosystem(t *testing.T) {
	for ecosystem, all := range map[packages.Ecosystem][]string{
		packages.PyPI: {"numpy", "Scikit_Learn", "uvicorn[standard, Foo_Bar] >= 0.2, <1", "a[]", "pandas (>=2,!=2.1.*)", "torch==2.1.0+cpu",
			"x~=1.4; python_version >= '3.8' and (os_name=='nt' or extra not in \"a b\")"},
		packages.NPM: {"lodash", "lodash@^4.17", "lodash@>=1 <2 || 3.x", "@types/node@next", "@types/node", "/mnt/data/demo-1.0.0.tgz", "/mnt/data/a b/demo-1.tar.gz"},
	} {
		for _, asked := range all {
			got, f := policy(t, packages.Rules{}).Check(ecosystem, " "+asked+"\t")
			should.Hold(t, f == nil && got == asked, "%q: got %q, %v", asked, got, f)
		}
	}
}

// smuggled are requirements by which something else than a package of the index would be installed.
var smuggled = map[packages.Ecosystem][]string{
	packages.PyPI: {
		"-r requirements.txt", "--index-url=https://evil.example", "-e .", ".", "./demo", "../demo", "demo/", "/etc/passwd", "/mnt/data/../demo-1.0-py3-none-any.whl",
		"/mnt/data/demo.whl", "demo @ https://evil.example/demo-1.0-py3-none-any.whl", "demo@file:///x", "https://evil.example/demo.whl", "git+https://evil.example/x",
		"demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz", "demo.zip[x]", "file:demo", "numpy /etc/passwd",
	},
	packages.NPM: {
		"--registry=https://evil.example", "-g", ".", "./demo", "../demo", "~/demo", "/etc", "/mnt/data/../demo.tgz", "/mnt/data/demo", "user/repo", "github:user/repo",
		"git+ssh://git@evil.example/x", "https://evil.example/x.tgz", "x@https://evil.example/x.tgz", "x@npm:other", "npm:other", "x@file:y", "x@workspace:*",
		"demo.tgz", "x@demo.tgz", "x@./y", "@scope/x@user/repo", "x@user/repo", "git@evil.example:user/repo",
	},
}

// unreadable are texts that are no requirements.
var unreadable = map[packages.Ecosystem][]string{
	packages.PyPI: {"", "  ", "_x", "a b", "numpy>", "numpy>=", "numpy=1", "numpy>=1;", "numpy[a", "numpy[a b]",
		"numpy (>=1", "numpy>=1\n--index-url=x", "numpy\x00", "nümpy", strings.Repeat("a", 1001), "numpy>=1||2", "a" + strings.Repeat("b", 300)},
	packages.NPM: {"", "@scope", "@/x", "x@.", "x@..", "x@@", ".hidden", "_x", "x y", "x@a b;c", "x\n", strings.Repeat("a", 215)},
}

func TestNothingIsSmuggledIn(t *testing.T) {
	p := policy(t, packages.Rules{AllowSdist: true})
	for ecosystem, all := range smuggled {
		for _, asked := range all {
			r, f := p.Check(ecosystem, asked)
			should.Hold(t, f != nil, "%s takes %q, as %q", ecosystem, asked, r)
		}
	}
	for ecosystem, all := range unreadable {
		for _, asked := range all {
			r, f := p.Check(ecosystem, asked)
			should.Hold(t, f != nil && f.Hint != "", "%s takes %q, as %q, or does not say what to do: %v", ecosystem, asked, r, f)
		}
	}
	_, f := p.Check("cargo", "serde")
	should.Hold(t, f != nil && f.Code == fault.InvalidArgument, "got %v", f)
}

// What is taken is no option, path or address, and is taken again.
func FuzzCheck(f *testing.F) {
	for ecosystem, all := range smuggled {
		for _, asked := range all {
			f.Add(ecosystem == packages.NPM, asked)
		}
	}
	f.Add(false, `uvicorn[standard]>=0.2,<1; python_version >= "3.8"`)
	f.Add(true, "@types/node@>=1 <2")
	p := policy(f, packages.Rules{Deny: []string{"evil"}, Minimum: packages.DefaultMinimum})
	f.Fuzz(func(t *testing.T, npm bool, asked string) {
		ecosystem := packages.PyPI
		if npm {
			ecosystem = packages.NPM
		}
		got, refused := p.Check(ecosystem, asked)
		if refused != nil {
			return
		}
		if again, refused := p.Check(ecosystem, got); refused != nil || again != got {
			t.Errorf("%q is %q, which is %q, %v", asked, got, again, refused)
		}
		if strings.HasPrefix(got, "-") || strings.HasPrefix(got, ".") || strings.Contains(got, "://") || strings.EqualFold(got, "evil") && !npm {
			t.Errorf("%q becomes %q", asked, got)
		}
	})
}
