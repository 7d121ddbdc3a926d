// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"errors"
	"fmt"
	"net/http"

	"example.com/leasehold/fence"
)

// Transport is an [http.RoundTripper] that adds the token of the grant in the request's context
// ([leasehold.NewContext]). It sends nothing if the grant is not valid any more, and asks anew for every request, also for
// those that follow a redirect or retry.
//
// The token goes to whatever host the request goes to. It is no secret, but tells how far the cluster's revision is; use a
// client with a Transport only towards services of your own.
type Transport struct {
	// Base sends the requests. Default [http.DefaultTransport].
	Base http.RoundTripper
	// Optional lets requests without a grant in their context pass as they are. Otherwise they are not sent, and
	// the error matches [fence.ErrNoGrant].
	Optional bool
}

// RoundTrip implements [http.RoundTripper]. A request that has the header already is not sent: one of the two tokens would
// be wrong.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	token, err := fence.TokenFrom(request.Context())
	switch {
	case errors.Is(err, fence.ErrNoGrant) && t.Optional:
		return base.RoundTrip(request)
	case err == nil && len(request.Header.Values(Header)) > 0:
		err = fmt.Errorf("httpfence: not sent, the request has a %s header already", Header)
	}
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // the contract of RoundTripper; the error to report is another
		}
		return nil, err
	}
	request = request.Clone(request.Context()) // a RoundTripper must not change the caller's
	SetToken(request.Header, token)
	return base.RoundTrip(request)
}
