// Implements version 1 of the zklockbench driver protocol. The lock is in my_lock.go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"
)

// message is a line of the protocol, received or sent.
type message = map[string]interface{}

type request struct {
	T         string
	ID        int64
	C         *int
	Connect   string
	Auth      string
	SessionMs int64 `json:"session_ms"`
	On        string
	Mode      string
	TimeoutMs *int64 `json:"timeout_ms"`
}

var output sync.Mutex

func main() {
	if os.Getenv("ZKLOCKBENCH_DRIVER") != "1" {
		fmt.Fprintln(os.Stderr, "this program is a driver for zklockbench; use: zklockbench driver check ./run")
		os.Exit(2)
	}
	contenders := map[int]chan request{}
	lines := bufio.NewReaderSize(os.Stdin, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			log.Fatalf("not a request: %v: %q", err, line)
		}
		switch asked.T {
		case "hello":
			say(message{"t": "ready", "v": 1, "driver": "my lock 1", "locks": message{"MyLock": abilities}})
		case "echo":
			say(message{"id": asked.ID, "ok": message{}})
		case "open", "acquire", "release", "close":
			if asked.T == "open" && asked.C != nil {
				contenders[*asked.C] = make(chan request, 64)
				go serve(*asked.C, contenders[*asked.C])
			}
			if asked.C == nil || contenders[*asked.C] == nil {
				say(message{"id": asked.ID, "err": "bad-request"})
				continue
			}
			contenders[*asked.C] <- asked
			if asked.T == "close" {
				delete(contenders, *asked.C)
			}
		default:
			say(message{"id": asked.ID, "err": "unsupported"})
		}
	}
}

// serve handles the requests of one contender, one at a time.
func serve(number int, requests chan request) {
	tell := func(what, session string) {
		event := message{"t": "event", "c": number, "what": what}
		if session != "" {
			event["session"] = session
		}
		say(event)
	}
	var lock *myLock
	for asked := range requests {
		var err error
		ok, got := message{}, true
		switch asked.T {
		case "open":
			timeout := time.Duration(asked.SessionMs) * time.Millisecond
			var session string
			lock, session, err = open(asked.Connect, asked.Auth, timeout, tell)
			ok["session"] = session
		case "acquire":
			timeout := time.Duration(-1)
			if asked.TimeoutMs != nil {
				timeout = time.Duration(*asked.TimeoutMs) * time.Millisecond
			}
			lock.mode = asked.Mode
			got, err = lock.acquire(asked.On, timeout)
		case "release":
			err = lock.release(asked.On)
		case "close":
			if lock != nil {
				lock.close()
			}
		}
		switch {
		case err != nil:
			say(message{"id": asked.ID, "err": wordFor(err), "message": err.Error()})
		case !got:
			say(message{"id": asked.ID, "err": "timeout"})
		default:
			say(message{"id": asked.ID, "ok": ok})
		}
		if asked.T == "close" {
			return
		}
	}
}

// say writes a line without buffering.
func say(what message) {
	line, err := json.Marshal(what)
	if err != nil {
		log.Fatal(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1)
	}
}
