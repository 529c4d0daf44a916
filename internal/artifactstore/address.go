package artifactstore

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// kind is a kind of store.
type kind struct {
	open func(Address, *http.Client, func(string) (string, bool)) (bucket, error)
	// options are the parameters that an address may carry behind its question mark.
	options []string
	// secrets are the variables with values that are masked wherever they turn up.
	secrets []string
}

var kinds = map[string]kind{
	"azblob": {open: openAzure, secrets: []string{"AZURE_BLOB_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_KEY"}},
	"s3":     {open: openS3, options: []string{"region", "endpoint"}, secrets: []string{"AWS_SECRET_ACCESS_KEY"}},
	"gs":     {open: openGoogle, options: []string{"endpoint"}, secrets: []string{"GS_SECRET_ACCESS_KEY"}},
}

// Address is the place of a store: azblob://container/prefix, s3://bucket/prefix?region=…&endpoint=… or gs://bucket/prefix.
type Address struct {
	scheme, bucket, prefix string
	region                 string
	endpoint               *url.URL // nil: the service's own
}

// bucketName matches the names that all of the stores allow.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$`)

// Parse parses an address. Errors do not repeat a possible secret.
func Parse(address string) (Address, error) {
	scheme, _, _ := strings.Cut(address, "://")
	k, ok := kinds[scheme]
	if !ok {
		return Address{}, errors.New("the address of a store begins with azblob://, s3:// or gs://")
	}
	u, err := url.Parse(address)
	if err != nil {
		return Address{}, fmt.Errorf("what follows %s:// is not the name of a bucket, a prefix and options", scheme)
	}
	if u.User != nil {
		return Address{}, errors.New("credentials do not belong into the address of a store: it is shown; they come from the environment")
	}
	a := Address{scheme: scheme, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case a.bucket == "":
		return Address{}, fmt.Errorf("%s://%s names no bucket", scheme, u.Path)
	case !bucketName.MatchString(a.bucket):
		return Address{}, badName(a.bucket)
	case u.Fragment != "" || slices.ContainsFunc(strings.Split(a.prefix, "/"), func(name string) bool {
		return name == "." || name == ".." || name == "" && a.prefix != ""
	}):
		return Address{}, fmt.Errorf("%q cannot be a prefix: it is names with one slash between them", strings.Trim(u.Path, "/"))
	case len(a.prefix) > maxKey/2:
		return Address{}, fmt.Errorf("the prefix is too long; %d bytes are the most", maxKey/2)
	}
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(k.options, name) {
			return Address{}, fmt.Errorf("%s:// has no option %q%s", scheme, name, choices(k.options))
		}
	}
	a.region = query.Get("region")
	if endpoint := query.Get("endpoint"); endpoint != "" {
		if a.endpoint, err = parseEndpoint(endpoint); err != nil {
			return Address{}, err
		}
	}
	return a, nil
}

func badName(bucket string) error {
	return &known{words: fmt.Sprintf("%q cannot be the name of a bucket: it has 3 to 63 small letters, digits, dots and dashes", text.Shorten(bucket, 80))}
}

func choices(options []string) string {
	if len(options) == 0 {
		return ""
	}
	return "; there are " + strings.Join(options, " and ")
}

// parseEndpoint parses a store's endpoint: https://host, or a host alone.
func parseEndpoint(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("an endpoint is http:// or https:// and a host, with nothing behind it")
	}
	return u, nil
}

// Below returns the address of a folder within the store's.
func (a Address) Below(folder string) Address {
	a.prefix = strings.Trim(a.prefix+"/"+folder, "/")
	return a
}

// String is the address without options.
func (a Address) String() string {
	text := a.scheme + "://" + a.bucket
	if a.prefix != "" {
		text += "/" + a.prefix
	}
	return text
}

// key is the name of a session's file in the bucket.
func (a Address) key(session, path string) string {
	key := session + "/" + path
	if a.prefix != "" {
		key = a.prefix + "/" + key
	}
	return key
}

// Secrets returns the variables of the environment that open the store: they are masked wherever they turn up.
func (a Address) Secrets(lookup func(string) (string, bool)) map[string]string {
	found := make(map[string]string)
	for _, name := range kinds[a.scheme].secrets {
		value, _ := lookup(name)
		if value == "" {
			continue
		}
		maps.Copy(found, ConnectionSecrets(name, value))
	}
	return found
}

// ConnectionSecrets returns the secrets in a connection string, or a key, with names that begin with name.
func ConnectionSecrets(name, connection string) map[string]string {
	found := map[string]string{name: connection}
	for field := range strings.SplitSeq(connection, ";") {
		for _, secret := range []string{"AccountKey", "SharedAccessSignature"} {
			if key, ok := strings.CutPrefix(strings.TrimSpace(field), secret+"="); ok && key != "" {
				found[name+"."+secret] = key
			}
		}
	}
	return found
}
