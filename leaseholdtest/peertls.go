// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// peerTLS is the TLS of the traffic among the members: one certificate for all, in dir, checked by nobody. It
// protects nothing; it is there because it makes every member's connections recognisable (see [gate]).
type peerTLS struct{ cert, key string }

func newPeerTLS(dir string) (*peerTLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: make the members' key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: make the members' certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: encode the members' key: %w", err)
	}
	p := &peerTLS{cert: filepath.Join(dir, "peer.crt"), key: filepath.Join(dir, "peer.key")}
	if err := writePEM(p.cert, "CERTIFICATE", cert); err != nil {
		return nil, err
	}
	return p, writePEM(p.key, "PRIVATE KEY", private)
}

// info is the configuration of the member with the given index.
func (p *peerTLS) info(index int) transport.TLSInfo {
	return transport.TLSInfo{
		CertFile:            p.cert,
		KeyFile:             p.key,
		InsecureSkipVerify:  true,
		SkipClientSANVerify: true,
		ServerName:          peerName(index),
	}
}

func writePEM(path, kind string, der []byte) error {
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("leaseholdtest: write the members' certificate: %w", err)
	}
	return nil
}
