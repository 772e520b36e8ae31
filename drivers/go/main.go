// A zklockbench driver for Go's lock (version 1 of the driver protocol, docs/testing-your-client.md).
//
// The lock is zk.Lock from github.com/samuel/go-zookeeper. Its method Lock() supports neither timeouts nor
// cancellation, and does not report a lost lock. This driver therefore emulates giving up: it replies that
// the wait is over, but lets the call continue. If the call acquires the lock later, the driver releases the
// lock at once and reports `late`; until then, the node remains in the queue.
//
// The successor library, github.com/go-zookeeper/zk, differs in two ways. Its lock reads a node's number
// after the last "lock-" or "__" instead of the last "-", so nodes of other clients such as kazoo do not
// break the lock. The library also has LockWithData.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/samuel/go-zookeeper/zk"
	"golang.org/x/sys/unix"
)

// Version of the library, set at compile time.
var release = "unknown"

// message is a line of the protocol, received or sent.
type message = map[string]interface{}

type request struct {
	T         string
	ID        int64
	V         []int
	C         *int
	Connect   string
	Auth      string
	SessionMs int64 `json:"session_ms"`
	On        string
	TimeoutMs *int64 `json:"timeout_ms"`
	Of        int64
}

// contender has its own client, and a goroutine that handles its requests.
type contender struct {
	number   int
	requests chan request
	// IDs of the acquires to cancel.
	cancels chan int64
	// ID of the latest acquire; used only by the goroutine that reads requests.
	lastAcquire int64

	conn    *zk.Conn
	chroot  string
	held    map[string]unlocker
	session chan message
	expired int32
}

// unlocker is the library's lock or the node of a try.
type unlocker interface {
	Unlock() error
}

// call is the outcome of an acquire.
type call struct {
	lock     unlocker
	node     string
	err      error
	from, to int64
}

// tried is the node that a try created in the lock's queue.
type tried struct {
	conn *zk.Conn
	node string
}

func (t tried) Unlock() error { return t.conn.Delete(t.node, -1) }

var output sync.Mutex

func main() {
	if os.Getenv("ZKLOCKBENCH_DRIVER") != "1" {
		fmt.Fprintln(os.Stderr, "this program is a driver for zklockbench; use: zklockbench run quick --driver go=drivers/go/run --strategies go:Lock")
		os.Exit(2)
	}
	contenders := map[int]*contender{}
	acquires := map[int64]*contender{}
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
		var c *contender
		if asked.C != nil {
			c = contenders[*asked.C]
		}
		switch {
		case asked.T == "hello":
			say(ready())
		case asked.T == "echo" && asked.C == nil:
			say(message{"id": asked.ID, "ok": message{"now": now()}})
		case asked.T == "open" && asked.C != nil:
			c = &contender{
				number: *asked.C, requests: make(chan request, 64), cancels: make(chan int64, 64),
				held: map[string]unlocker{}, session: make(chan message, 1),
			}
			contenders[c.number] = c
			c.requests <- asked
			go c.serve()
		case asked.T == "cancel":
			// A contender has one acquire at a time, and ignores cancellations of earlier acquires.
			if waits := acquires[asked.Of]; waits != nil {
				waits.cancels <- asked.Of
			}
			say(message{"id": asked.ID, "ok": message{}})
		case asked.T == "acquire" || asked.T == "release" || asked.T == "echo" || asked.T == "close":
			if c == nil {
				say(message{"id": asked.ID, "err": "bad-request", "message": "no such contender"})
				continue
			}
			if asked.T == "acquire" {
				delete(acquires, c.lastAcquire)
				acquires[asked.ID], c.lastAcquire = c, asked.ID
			}
			if asked.T == "close" {
				delete(contenders, c.number)
			}
			c.requests <- asked
		default:
			say(message{"id": asked.ID, "err": "unsupported"})
		}
	}
}

func ready() message {
	return message{
		"t": "ready", "v": 1, "driver": "go 1", "contenders": 4096, "clock": "monotonic",
		"inside": message{"samuel/go-zookeeper": release, "go": strings.TrimPrefix(runtime.Version(), "go")},
		"locks": message{"Lock": message{
			"summary": "Go's Lock, by samuel/go-zookeeper itself", "modes": []string{"write"},
			"timeout": "emulated", "cancel": "emulated", "token": "czxid", "order": "fifo",
		}},
	}
}

func (c *contender) serve() {
	for asked := range c.requests {
		switch asked.T {
		case "open":
			c.open(asked)
		case "acquire":
			c.acquire(asked)
		case "release":
			c.release(asked)
		case "echo":
			say(message{"id": asked.ID, "ok": message{"now": now()}})
		case "close":
			held := []string{}
			for on := range c.held {
				held = append(held, on)
			}
			if c.conn != nil {
				c.conn.Close()
			}
			say(message{"id": asked.ID, "ok": message{"held": held}})
			return
		}
	}
}

// inOrder uses the servers in the order of the connect string. The library shuffles the servers, which would
// spread contenders unevenly and distort results, because sessions on the leader are faster.
type inOrder struct {
	servers            []string
	current, connected int
}

func (o *inOrder) Init(servers []string) error {
	if len(servers) == 0 {
		return errors.New("no servers")
	}
	o.servers, o.current, o.connected = servers, -1, -1
	return nil
}

func (o *inOrder) Len() int { return len(o.servers) }

func (o *inOrder) Next() (server string, retryStart bool) {
	o.current = (o.current + 1) % len(o.servers)
	retryStart = o.current == o.connected
	if o.connected < 0 {
		o.connected = 0
	}
	return o.servers[o.current], retryStart
}

func (o *inOrder) Connected() { o.connected = o.current }

func (c *contender) open(asked request) {
	// The library does not support a chroot.
	servers := asked.Connect
	if at := strings.Index(servers, "/"); at >= 0 {
		servers, c.chroot = servers[:at], servers[at:]
	}
	timeout := time.Duration(asked.SessionMs) * time.Millisecond
	connected := make(chan struct{})
	conn, _, err := zk.Connect(strings.Split(servers, ","), timeout, zk.WithLogger(log.Default()), zk.WithLogInfo(false),
		zk.WithHostProvider(&inOrder{}),
		zk.WithEventCallback(func(event zk.Event) {
			<-connected
			c.told(event)
		}))
	if err != nil {
		say(message{"id": asked.ID, "err": "refused", "message": err.Error()})
		return
	}
	c.conn = conn
	close(connected)
	if timeout < 10*time.Second {
		timeout = 10 * time.Second
	}
	select {
	case session := <-c.session:
		if asked.Auth != "" {
			if err := conn.AddAuth("digest", []byte(asked.Auth)); err != nil {
				say(failed(asked.ID, err, "no"))
				return
			}
		}
		say(message{"id": asked.ID, "ok": session})
	case <-time.After(timeout):
		say(message{"id": asked.ID, "err": "connection", "held": "no", "message": "could not open a session in time"})
	}
}

// told handles each event on the client's own goroutine, which must not wait for results from the client.
// (The client's event channel is not an alternative, because a full channel drops events.)
func (c *contender) told(event zk.Event) {
	if event.Type != zk.EventSession {
		return
	}
	tell := message{"t": "event", "c": c.number, "at": now()}
	switch event.State {
	case zk.StateDisconnected:
		tell["what"] = "suspended"
	case zk.StateExpired:
		atomic.StoreInt32(&c.expired, 1)
		tell["what"] = "expired"
	case zk.StateHasSession:
		// After an expiry, the client opens another session.
		id := fmt.Sprintf("0x%x", uint64(c.conn.SessionID()))
		tell["what"], tell["session"] = "connected", id
		select {
		case c.session <- message{
			"session": id,
			// Both fields are private, and are written only by the goroutine that runs this code.
			"session_ms": private(c.conn, "sessionTimeoutMs").Int(),
			"password":   fmt.Sprintf("%x", private(c.conn, "passwd").Bytes()),
		}:
		default:
		}
	default:
		return
	}
	say(tell)
}

func (c *contender) acquire(asked request) {
	var timeout <-chan time.Time
	if asked.TimeoutMs != nil {
		timeout = time.After(time.Duration(*asked.TimeoutMs) * time.Millisecond)
	}
	if len(c.cancels) > 0 && c.isCancelled(asked.ID) {
		say(message{"id": asked.ID, "err": "cancelled"})
		return
	}
	if asked.TimeoutMs != nil && *asked.TimeoutMs == 0 {
		c.try(asked)
		return
	}
	// Each acquire has its own lock, because an abandoned one may still be waiting.
	done := make(chan call, 1)
	lock := zk.NewLock(c.conn, c.chroot+asked.On, zk.WorldACL(zk.PermAll))
	go func() {
		from := now()
		err := lock.Lock()
		got := call{lock: lock, err: err, from: from, to: now()}
		if err == nil {
			got.node = private(lock, "lockPath").String()
		}
		done <- got
	}()
	for {
		select {
		case got := <-done:
			c.granted(asked, got)
			return
		case <-timeout:
			say(message{"id": asked.ID, "err": "timeout"})
			go c.releaseLate(asked, done)
			return
		case id := <-c.cancels:
			if id == asked.ID {
				say(message{"id": asked.ID, "err": "cancelled"})
				go c.releaseLate(asked, done)
				return
			}
		}
	}
}

// try joins the queue, and leaves again unless its node is first. The library's Lock() always waits, so try
// duplicates the steps before the wait.
func (c *contender) try(asked request) {
	on, from := c.chroot+asked.On, now()
	node, err := c.conn.CreateProtectedEphemeralSequential(on+"/lock-", []byte{}, zk.WorldACL(zk.PermAll))
	if err != nil {
		say(failed(asked.ID, err, "maybe"))
		return
	}
	isFirst, err := c.isFirst(on, path.Base(node))
	got := call{lock: tried{c.conn, node}, node: node, err: err, from: from, to: now()}
	if err == nil && !isFirst {
		if err := c.conn.Delete(node, -1); err != nil {
			say(failed(asked.ID, err, "maybe"))
			return
		}
		say(stamped(message{"id": asked.ID, "err": "timeout"}, from, now()))
		return
	}
	c.granted(asked, got)
}

func (c *contender) isFirst(on, own string) (bool, error) {
	number, err := numberOf(own)
	if err != nil {
		return false, err
	}
	names, _, err := c.conn.Children(on)
	for _, name := range names {
		// As in the library, a name without a number is an error.
		other, err := numberOf(name)
		if err != nil || other < number {
			return false, err
		}
	}
	return err == nil, err
}

func numberOf(name string) (int, error) {
	return strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
}

// isCancelled reports whether the acquire was cancelled before it started, and discards older cancellations.
func (c *contender) isCancelled(acquire int64) bool {
	cancelled := false
	for len(c.cancels) > 0 {
		cancelled = <-c.cancels == acquire || cancelled
	}
	return cancelled
}

func (c *contender) granted(asked request, got call) {
	if got.err != nil {
		// The library may have left its node in the queue.
		say(stamped(failed(asked.ID, got.err, "maybe"), got.from, got.to))
		return
	}
	c.held[asked.On] = got.lock
	if atomic.LoadInt32(&c.expired) != 0 {
		// The client continues with a new session, but this contender's session is over.
		got.lock.Unlock()
		delete(c.held, asked.On)
		say(stamped(failed(asked.ID, zk.ErrSessionExpired, "no"), got.from, got.to))
		return
	}
	_, stat, err := c.conn.Exists(got.node)
	if err != nil {
		say(stamped(failed(asked.ID, err, "maybe"), got.from, got.to))
		return
	}
	ok := message{"node": path.Base(got.node), "token": strconv.FormatInt(stat.Czxid, 10)}
	say(stamped(message{"id": asked.ID, "ok": ok}, got.from, got.to))
}

// releaseLate waits for an abandoned call, and releases the lock if the call acquired it.
func (c *contender) releaseLate(asked request, done chan call) {
	got := <-done
	if got.err != nil {
		return
	}
	// If the session is over, the node no longer exists.
	for err := got.lock.Unlock(); err == zk.ErrConnectionClosed || err == zk.ErrNoServer; err = got.lock.Unlock() {
		time.Sleep(100 * time.Millisecond)
	}
	say(message{"t": "event", "what": "late", "c": c.number, "of": asked.ID, "on": asked.On, "from": got.to, "to": now()})
}

func (c *contender) release(asked request) {
	lock := c.held[asked.On]
	if lock == nil {
		say(message{"id": asked.ID, "err": "bad-request", "message": "the lock is not held"})
		return
	}
	delete(c.held, asked.On)
	from := now()
	err := lock.Unlock()
	to := now()
	if err != nil {
		say(stamped(failed(asked.ID, err, "maybe"), from, to))
		return
	}
	say(stamped(message{"id": asked.ID, "ok": message{}}, from, to))
}

func failed(id int64, err error, held string) message {
	word := "crash"
	switch err {
	case zk.ErrSessionExpired, zk.ErrNoNode:
		word = "session"
	case zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing:
		word = "connection"
	case zk.ErrNoAuth, zk.ErrAuthFailed:
		word = "refused"
	}
	return message{"id": id, "err": word, "held": held, "message": err.Error()}
}

func stamped(answer message, from, to int64) message {
	answer["from"], answer["to"] = from, to
	return answer
}

// private reads an unexported field of the library.
func private(of interface{}, field string) reflect.Value {
	return reflect.ValueOf(of).Elem().FieldByName(field)
}

// now reads CLOCK_MONOTONIC in microseconds, which Go's time package does not expose.
func now() int64 {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		log.Fatal(err)
	}
	return at.Nano() / 1000
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
