// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrPicture says that the file for the picture cannot be opened. Nothing else has been done.
var ErrPicture = errors.New("cannot write the picture")

// pictureFile is where the picture will go. It is opened before the play, so that nobody watches it all to learn then that
// there is no such directory.
type pictureFile struct {
	f    *os.File
	path string
	made bool // it was not there before, and is empty so far
}

// openPicture opens path for the picture; if none is given, leasehold-demo.svg here or, where that is not allowed, a new file
// among the temporary ones. What the file holds stays until save. Whoever opens must
// discard. Errors match ErrPicture.
func openPicture(path string) (*pictureFile, error) {
	abs, err := filepath.Abs(cmp.Or(path, "leasehold-demo.svg"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	p := &pictureFile{path: abs, made: true}
	p.f, err = os.OpenFile(abs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		p.made = false
		p.f, err = os.OpenFile(abs, os.O_WRONLY, 0)
	}
	if err != nil && path == "" {
		p.made = true
		var tempErr error
		if p.f, tempErr = os.CreateTemp("", "leasehold-demo-*.svg"); tempErr == nil {
			p.path, err = p.f.Name(), nil
		} else {
			err = errors.Join(err, tempErr)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPicture, err)
	}
	return p, nil
}

// save writes the picture in the place of what the file held.
func (p *pictureFile) save(svg []byte) error {
	var err error
	if info, statErr := p.f.Stat(); statErr == nil && info.Mode().IsRegular() {
		err = p.f.Truncate(0) // a pipe or a device cannot be cut
	}
	if err == nil {
		_, err = p.f.Write(svg)
	}
	if err = errors.Join(err, p.f.Close()); err != nil {
		return fmt.Errorf("save the picture: %w", err)
	}
	p.made = false
	return nil
}

// discard closes the file and removes it if nothing was saved in it that was not there before.
func (p *pictureFile) discard() {
	_ = p.f.Close() // again, after save
	if p.made {
		_ = os.Remove(p.path) // it was empty
	}
}
