// Package body is the message body all conformance programs send and verify, in Java and Go alike: one line of text
// "sluice RUN KEY SEQUENCE CRC" and then padding up to the wanted size. CRC is the CRC-32, as eight hex digits, of
// "RUN KEY SEQUENCE" followed by the padding, so that neither can change unnoticed.
package body

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
)

type Body struct {
	Run      string
	Key      int
	Sequence int64
}

func (b Body) ID() string {
	return fmt.Sprintf("%s %d %d", b.Run, b.Key, b.Sequence)
}

func (b Body) Encode(size int) []byte {
	padding := b.padding(max(0, size-len(b.head(0))))
	return append(b.head(b.crc(padding)), padding...)
}

// Decode fails when a single byte is not what the producer wrote.
func Decode(raw []byte) (Body, error) {
	head, padding, _ := bytes.Cut(raw, []byte("\n"))
	words := bytes.Split(head, []byte(" "))
	if len(words) != 5 || string(words[0]) != "sluice" {
		return Body{}, fmt.Errorf("not one of our bodies")
	}
	key, err := strconv.Atoi(string(words[2]))
	if err != nil {
		return Body{}, err
	}
	sequence, err := strconv.ParseInt(string(words[3]), 10, 64)
	if err != nil {
		return Body{}, err
	}
	b := Body{string(words[1]), key, sequence}
	if string(words[4]) != fmt.Sprintf("%08x", b.crc(padding)) {
		return Body{}, fmt.Errorf("checksum of %s", b.ID())
	}
	return b, nil
}

func (b Body) head(crc uint32) []byte {
	return fmt.Appendf(nil, "sluice %s %08x\n", b.ID(), crc)
}

func (b Body) crc(padding []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(b.ID())), crc32.IEEETable, padding)
}

// Letters from a linear congruential generator seeded by what the message is.
func (b Body) padding(size int) []byte {
	letters := make([]byte, size)
	state := uint64(b.Key)*1_000_003 + uint64(b.Sequence)
	for i := range letters {
		state = state*6364136223846793005 + 1442695040888963407
		letters[i] = 'a' + byte((state>>33)%26)
	}
	return letters
}
