// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A journal writes log entries in a goroutine of its own: a log that blocks (a full pipe, a slow disk) must not hold up a
// renewal or an expiry. What does not fit is left out.
type journal struct {
	log     *zap.Logger
	entries chan entry
}

type entry struct {
	log     *zap.Logger
	level   zapcore.Level
	message string
	fields  []zap.Field
}

const journalEntries = 256

func newJournal(log *zap.Logger) *journal {
	return &journal{log: log, entries: make(chan entry, journalEntries)}
}

func (j *journal) info(message string, fields ...zap.Field) {
	j.write(j.log, zap.InfoLevel, message, fields)
}

func (j *journal) warn(message string, fields ...zap.Field) {
	j.write(j.log, zap.WarnLevel, message, fields)
}

// write leaves an entry for log. It never blocks.
func (j *journal) write(log *zap.Logger, level zapcore.Level, message string, fields []zap.Field) {
	if !log.Core().Enabled(level) {
		return
	}
	select {
	case j.entries <- entry{log, level, message, fields}:
	default:
	}
}

// run writes what is left for it, and at the end what there is. It is not waited for by Close, because it can be stuck in
// a log for ever.
func (j *journal) run(ctx context.Context) {
	for {
		select {
		case e := <-j.entries:
			e.log.Log(e.level, e.message, e.fields...)
		case <-ctx.Done():
			for {
				select {
				case e := <-j.entries:
					e.log.Log(e.level, e.message, e.fields...)
				default:
					return
				}
			}
		}
	}
}
