// What a replica says of a request that it hands on, and how the other one knows who says it.

package replicas

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// handedOnHeader has the key of the replica that a request is handed to, the tenant that it was let in as (escaped; empty: the user whose
// server it is), and the address of its client, with blanks between them. A replica's key is in its Lease, which replicas alone read.
const handedOnHeader = "Code-Sandbox-Replica"

func (p *peer) handedOn(tenant, client string) string {
	return p.key + " " + url.QueryEscape(tenant) + " " + client
}

type handedOnKey struct{}

// handedOnAs returns the tenant as which another replica has let a request in; is false: it comes from a client.
func handedOnAs(r *http.Request) (tenant string, is bool) {
	tenant, is = r.Context().Value(handedOnKey{}).(string)
	return tenant, is
}

// Receive comes before all else that a replica serves: requests of other replicas have their clients' addresses from here on, and
// a client's header of that name is removed.
func (r *Replicas) Receive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		said := strings.Split(q.Header.Get(handedOnHeader), " ")
		q.Header.Del(handedOnHeader)
		if len(said) == 3 && subtle.ConstantTimeCompare([]byte(said[0]), []byte(r.key)) == 1 {
			if tenant, err := url.QueryUnescape(said[1]); err == nil {
				q = q.WithContext(context.WithValue(q.Context(), handedOnKey{}, tenant))
				q.RemoteAddr = said[2]
			}
		}
		next.ServeHTTP(w, q)
	})
}
