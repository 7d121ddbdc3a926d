// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold"
	"example.com/leasehold/fence/grpcfence"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/fence/internal/lists"
)

// httpLists is a client of the lists over HTTP.
type httpLists struct {
	base   string
	client *http.Client
}

// call makes one request, with a token unless that is zero.
func (l *httpLists) call(ctx context.Context, method, path, name string, token leasehold.Token, value string) ([]byte, error) {
	target := l.base + path + "?" + url.Values{"resource": {name}}.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(value))
	if err != nil {
		return nil, err
	}
	if token != 0 {
		httpfence.SetToken(request.Header, token)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if err := httpfence.CheckResponse(response); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", response.Status)
	}
	return body, err
}

// addHTTP adds a client of the service that is fenced by its middleware.
func (r *resources) addHTTP(_ context.Context, a addresses) error {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = 16
	r.closers = append(r.closers, func() error { base.CloseIdleConnections(); return nil })
	plain := &httpLists{a.HTTP, &http.Client{Transport: base}}
	fenced := &httpLists{a.HTTP, &http.Client{Transport: &httpfence.Transport{Base: base}}}
	r.adapters = append(r.adapters, adapter{
		name: "HTTP, httpfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			_, err := plain.call(ctx, http.MethodPost, "/fenced", resource, grant.Token(), value)
			return err
		},
		granted: func(ctx context.Context, value string) error {
			_, err := fenced.call(ctx, http.MethodPost, "/fenced", resource, 0, value)
			return err
		},
		plain: func(ctx context.Context, value string) error {
			_, err := plain.call(ctx, http.MethodPost, "/plain", resource, 0, value)
			return err
		},
		last: func(ctx context.Context) (string, error) {
			body, err := plain.call(ctx, http.MethodGet, "/fenced", resource, 0, "")
			if err != nil {
				return "", err
			}
			return lastOf(body)
		},
	})
	return nil
}

// lastOf returns the last value of a list in JSON.
func lastOf(list []byte) (string, error) {
	var values []string
	if err := json.Unmarshal(list, &values); err != nil || len(values) == 0 {
		return "", err
	}
	return values[len(values)-1], nil
}

// addGRPC adds a client of the service that is fenced by its interceptors.
func (r *resources) addGRPC(_ context.Context, a addresses) error {
	fencedAddr, plainAddr, _ := strings.Cut(a.GRPC, ",")
	var conns []*grpc.ClientConn
	for _, c := range []struct {
		addr    string
		options []grpc.DialOption
	}{
		{plainAddr, nil},
		{fencedAddr, nil},
		{fencedAddr, []grpc.DialOption{grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor(grpcfence.ClientConfig{}))}},
	} {
		conn, err := grpc.NewClient(c.addr, append(c.options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			return err
		}
		r.closers = append(r.closers, conn.Close)
		conns = append(conns, conn)
	}
	plain, byToken, byGrant := conns[0], conns[1], conns[2]
	add := func(ctx context.Context, conn *grpc.ClientConn, value string) error {
		in := lists.Encode(lists.Message{Resource: []byte(resource), Value: value})
		return grpcfence.ErrorFrom(conn.Invoke(ctx, lists.MethodAdd, in, new(wrapperspb.BoolValue)))
	}
	r.adapters = append(r.adapters, adapter{
		name: "gRPC, grpcfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			return add(grpcfence.WithToken(ctx, grant.Token()), byToken, value)
		},
		granted: func(ctx context.Context, value string) error { return add(ctx, byGrant, value) },
		plain:   func(ctx context.Context, value string) error { return add(ctx, plain, value) },
		last: func(ctx context.Context) (string, error) {
			out := new(wrapperspb.StringValue)
			in := lists.Encode(lists.Message{Resource: []byte(resource)})
			if err := byToken.Invoke(ctx, lists.MethodValues, in, out); err != nil {
				return "", err
			}
			return lastOf([]byte(out.GetValue()))
		},
	})
	return nil
}
