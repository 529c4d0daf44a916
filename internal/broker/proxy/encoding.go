package proxy

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// askPlainly asks a host for an answer that can be masked: whole, and encoded by gzip at the most.
func askPlainly(h http.Header) {
	for _, name := range []string{"Range", "If-Range", "Sec-Websocket-Extensions"} {
		h.Del(name)
	}
	h.Set("Accept-Encoding", "gzip")
}

// decode makes an answer's body one that can be masked, or says why that cannot be. The transport does not decode
// by itself: it looks at the first encoding alone, and drops the others.
func decode(response *http.Response, isHead bool) *refusal {
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols && len(response.Header["Sec-Websocket-Extensions"]) > 0:
		return unmaskable("the host compresses the messages of a websocket, which was not asked for")
	case response.StatusCode == http.StatusPartialContent:
		return unmaskable("the host sent a part of its answer, which was not asked for")
	case isHead, response.StatusCode == http.StatusNoContent, response.StatusCode == http.StatusNotModified:
		return nil
	}
	encodings := encodingsOf(response.Header)
	switch {
	case len(encodings) == 0:
		return nil
	case len(encodings) > 1 || encodings[0] != "gzip" && encodings[0] != "x-gzip":
		return unmaskable("the host sent its answer in an encoding that was not asked for")
	}
	response.Body = &gzipBody{ReadCloser: response.Body}
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Length")
	response.ContentLength = -1
	return nil
}

func unmaskable(why string) *refusal {
	return &refusal{status: http.StatusBadGateway, rule: "encoding", words: why + ", in which values of secrets could not be masked"}
}

// encodingsOf returns an answer's encodings that change it.
func encodingsOf(h http.Header) (encodings []string) {
	for _, one := range strings.Split(strings.Join(h["Content-Encoding"], ","), ",") {
		if one = strings.ToLower(strings.TrimSpace(one)); one != "" && one != "identity" {
			encodings = append(encodings, one)
		}
	}
	return encodings
}

// gzipBody decodes a body while it is read.
type gzipBody struct {
	io.ReadCloser
	decoder *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (n int, err error) {
	if b.decoder == nil {
		if b.decoder, err = gzip.NewReader(b.ReadCloser); err != nil {
			b.decoder = nil
			return 0, err
		}
	}
	return b.decoder.Read(p)
}
