// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"errors"
	"fmt"
	"reflect"

	"example.com/leasehold/fence"
)

// Retryable reports whether err is the database's way of saying that the transaction lost against another one and was
// not made: a serialization failure, a deadlock, a snapshot that is too old, a lock that was waited for too long. Run
// the whole transaction again, from its first read. It is meant for the caller's own statements and Commit; the errors of this
// package match [fence.ErrConflict] already.
//
// It knows the error types of pgx, lib/pq, go-sql-driver/mysql, modernc.org/sqlite and mattn/go-sqlite3 by what they
// offer, without importing them.
func Retryable(err error) bool {
	if errors.Is(err, fence.ErrConflict) {
		return true
	}
	for err := range chain(err) {
		if conflicts(err) {
			return true
		}
	}
	return false
}

// classify makes an error match fence.ErrConflict if it is one.
func classify(err error) error {
	if err == nil || errors.Is(err, fence.ErrConflict) || !Retryable(err) {
		return err
	}
	return fmt.Errorf("%w: %w", fence.ErrConflict, err)
}

// chain yields err and everything that it wraps.
func chain(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return walk(wrapper.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			if !walk(inner, yield) {
				return false
			}
		}
	}
	return true
}

// conflicts reports whether a driver's error is one of those of [Retryable].
func conflicts(err error) bool {
	// pgx and lib/pq.
	if e, ok := err.(interface{ SQLState() string }); ok {
		switch e.SQLState() {
		case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
			return true
		}
		return false
	}
	// modernc.org/sqlite: extended result codes, whose low byte is the result code.
	if e, ok := err.(interface{ Code() int }); ok {
		return sqliteBusy(int64(e.Code()))
	}
	// The others have fields only. A type of that name with a field of that kind is what is looked for, nothing more.
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return false
	}
	switch v.Type().Name() {
	case "MySQLError":
		if number := v.FieldByName("Number"); number.IsValid() && number.CanUint() {
			switch number.Uint() {
			case 1020, 1205, 1213: // ER_CHECKREAD, ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK
				return true
			}
		}
	case "Error": // mattn/go-sqlite3
		if code := v.FieldByName("Code"); v.Type().PkgPath() == "github.com/mattn/go-sqlite3" && code.IsValid() && code.CanInt() {
			return sqliteBusy(code.Int())
		}
	}
	return false
}

func sqliteBusy(code int64) bool {
	const busy, locked = 5, 6
	return code&0xff == busy || code&0xff == locked
}
