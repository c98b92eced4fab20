package body

import "testing"

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	sent := Body{"run", 3, 14}
	for _, size := range []int{0, 40, 5000} {
		got, err := Decode(sent.Encode(size))
		if err != nil || got != sent {
			t.Fatalf("size %d: %v, %v", size, got, err)
		}
	}
}

func TestOneWrongByteIsNoticed(t *testing.T) {
	raw := Body{"run", 3, 14}.Encode(100)
	for i := range raw {
		raw[i] ^= 1
		if _, err := Decode(raw); err == nil {
			t.Fatalf("byte %d", i)
		}
		raw[i] ^= 1
	}
}

// Pins the format that both languages share: this body was made by the Java side.
func TestFormat(t *testing.T) {
	const want = "sluice run 3 14 a9501a5c\nwdyufkiwgbbbhwgjdkselcfpimqvjfhzznc"
	if got := string(Body{"run", 3, 14}.Encode(60)); got != want {
		t.Fatal(got)
	}
}
