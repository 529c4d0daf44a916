//go:build unix

package e2e

type resourceContents struct {
	URI, MimeType, Text, Blob string
}

func (s *server) readResource(uri string) resourceContents {
	s.t.Helper()
	var got struct{ Contents []resourceContents }
	decode(s.t, s.request("resources/read", object{"uri": uri}).Result, &got)
	if len(got.Contents) != 1 || got.Contents[0].URI != uri {
		s.t.Fatalf("%s: %s", uri, sprint(got))
	}
	return got.Contents[0]
}

func (s *server) listsResource(uri string) bool {
	s.t.Helper()
	var got struct{ Resources []struct{ URI string } }
	decode(s.t, s.request("resources/list", nil).Result, &got)
	for _, r := range got.Resources {
		if r.URI == uri {
			return true
		}
	}
	return false
}
