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

// addHTTP adds a client of the service that is fenced by its middleware.
func (r *resources) addHTTP(_ context.Context, a addresses) error {
	base := http.DefaultTransport.(*http.Transport).Clone()
	plain, fenced := &http.Client{Transport: base}, &http.Client{Transport: &httpfence.Transport{Base: base}}
	r.closers = append(r.closers, func() error { base.CloseIdleConnections(); return nil })
	target := func(path string) string { return a.HTTP + path + "?" + url.Values{"resource": {resource}}.Encode() }
	call := func(ctx context.Context, client *http.Client, method, path string, token leasehold.Token, value string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, method, target(path), strings.NewReader(value))
		if err != nil {
			return nil, err
		}
		if token != 0 {
			httpfence.SetToken(request.Header, token)
		}
		response, err := client.Do(request)
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
	r.adapters = append(r.adapters, adapter{
		name: "HTTP, httpfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			_, err := call(ctx, plain, http.MethodPost, "/fenced", grant.Token(), value)
			return err
		},
		granted: func(ctx context.Context, value string) error {
			_, err := call(ctx, fenced, http.MethodPost, "/fenced", 0, value)
			return err
		},
		plain: func(ctx context.Context, value string) error {
			_, err := call(ctx, plain, http.MethodPost, "/plain", 0, value)
			return err
		},
		last: func(ctx context.Context) (string, error) {
			body, err := call(ctx, plain, http.MethodGet, "/fenced", 0, "")
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
