package main

import (
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

// Edit this file to define how your lock opens a session, acquires and releases. main.go implements the
// protocol.

// abilities declares the features of your lock; zklockbench's docs/testing-your-client.md describes each
// field. This library's Lock() can neither end a wait nor report a lost lock.
var abilities = message{"timeout": "none", "cancel": "none", "order": "fifo"}

// myLock is a contender's session and its locks. One goroutine calls its methods.
type myLock struct {
	conn    *zk.Conn
	chroot  string
	timeout time.Duration
	// mode of the current acquire: "write", or "read" if your lock declares readers.
	mode  string
	locks map[string]*zk.Lock
}

// open starts a session and returns its id. tell reports an event and, for "connected", the session.
func open(connect, auth string, timeout time.Duration, tell func(what, session string)) (*myLock, string, error) {
	lock := &myLock{timeout: timeout, locks: map[string]*zk.Lock{}}
	// The library does not support a chroot.
	if at := strings.Index(connect, "/"); at >= 0 {
		connect, lock.chroot = connect[:at], connect[at:]
	}
	conn, events, err := zk.Connect(strings.Split(connect, ","), timeout, zk.WithLogger(log.Default()), zk.WithLogInfo(false))
	if err != nil {
		return nil, "", err
	}
	lock.conn = conn
	opened := make(chan string, 1)
	go func() {
		for event := range events {
			switch event.State {
			case zk.StateDisconnected:
				tell("suspended", "")
			case zk.StateExpired:
				tell("expired", "")
			case zk.StateHasSession:
				// After an expiry, the client opens another session, which also belongs to this contender.
				session := fmt.Sprintf("0x%x", uint64(conn.SessionID()))
				tell("connected", session)
				select {
				case opened <- session:
				default:
				}
			}
		}
	}()
	if timeout < 10*time.Second {
		timeout = 10 * time.Second
	}
	select {
	case session := <-opened:
		if auth != "" {
			err = conn.AddAuth("digest", []byte(auth))
		}
		return lock, session, err
	case <-time.After(timeout):
		conn.Close()
		return nil, "", zk.ErrNoServer
	}
}

// acquire acquires the lock in the directory `on`, and returns false after the timeout. A timeout of 0 never
// waits, and a negative timeout waits forever.
func (l *myLock) acquire(on string, timeout time.Duration) (bool, error) {
	lock := zk.NewLock(l.conn, l.chroot+on, zk.WorldACL(zk.PermAll))
	l.locks[on] = lock
	return true, lock.Lock()
}

func (l *myLock) release(on string) error {
	return l.locks[on].Unlock()
}

func (l *myLock) close() {
	// Without a connection, Close would leave the session and its nodes to the server until the session times out.
	for until := time.Now().Add(l.timeout); l.conn.State() != zk.StateHasSession && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	l.conn.Close()
}

// wordFor returns the protocol's word for an error.
func wordFor(err error) string {
	switch err {
	case zk.ErrSessionExpired, zk.ErrNoNode:
		return "session"
	case zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing:
		return "connection"
	}
	return "crash"
}
