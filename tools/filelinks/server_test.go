package filelinks

import (
	"net"
	"net/url"
	"testing"
)

func TestAddressesThatLinksMayLeadTo(t *testing.T) {
	for address, want := range map[string]struct{ alone, public bool }{
		"127.0.0.1:8080": {true, true}, "localhost:0": {true, true}, "[::1]:80": {true, true}, "127.9.9.9:http": {true, true},
		"0.0.0.0:8080": {false, true}, ":8080": {false, true}, "192.168.0.1:80": {false, true}, "example.org:80": {false, true},
		"8080": {}, "": {}, "127.0.0.1": {}, "127.0.0.1:no-such-port": {}, "127.0.0.1:70000": {},
	} {
		if alone, public := CheckAddress(address, false) == nil, CheckAddress(address, true) == nil; alone != want.alone || public != want.public {
			t.Errorf("%q: %v alone, %v with a URL", address, alone, public)
		}
	}
	for text, good := range map[string]bool{
		"http://files.example": true, "https://files.example:8443/sandbox/": true, "http://[::1]:80": true,
		"": false, "files.example": false, "ftp://x": false, "http://": false, "http://u:p@x": false, "http://x?y": false, "http://x#y": false, "http://:80": false,
	} {
		if _, err := ParseBaseURL(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Clients start several servers with one setting.
func TestAPortThatIsTaken(t *testing.T) {
	first, err := Listen("127.0.0.1:0", nil)
	if err != nil || first.Moved != nil || first.BaseURL.String() != "http://"+first.Addr().String() {
		t.Fatalf("got %+v, %v", first, err)
	}
	defer first.Close()
	taken := first.Addr().String()
	second, err := Listen(taken, nil)
	if err != nil || second.Moved == nil || second.BaseURL.Host != second.Addr().String() || second.BaseURL.Host == taken {
		t.Fatalf("got %+v, %v", second, err)
	}
	defer second.Close()
	_, port, _ := net.SplitHostPort(taken)
	base := &url.URL{Scheme: "https", Host: "files.example"}
	if _, err := Listen("127.0.0.1:"+port, base); err == nil {
		t.Error("another port was taken, which nobody would be led to")
	}
	third, err := Listen("127.0.0.1:0", base)
	if err != nil || third.BaseURL != base {
		t.Fatalf("got %+v, %v", third, err)
	}
	defer third.Close()
}
