// Client-side caching with go-redis or valkey-go: `main LIBRARY PORT`.
//
// Writers change keys in many ways and count what was acknowledged; readers read through a cache that only the server's invalidations empty.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	keys    = 16
	writers = 4
	readers = 8
	writes  = 400
)

var (
	ctx     = context.Background()
	failed  bool
	address string
)

func check(name string, run func() error) {
	if err := run(); err != nil {
		failed = true
		fmt.Printf("not ok %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok %s\n", name)
}

func same(got, expected any) error {
	if !reflect.DeepEqual(got, expected) {
		return fmt.Errorf("expected %#v, got %#v", expected, got)
	}
	return nil
}

func until(what string, condition func() (bool, error)) error {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		if is, err := condition(); is || err != nil {
			return err
		}
		if time.Since(began) > 30*time.Second {
			return fmt.Errorf("%s: not within 30 s", what)
		}
	}
}

// A client without a cache, which writes and knows what is true.
func plain() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
}

func name(key int) string { return fmt.Sprint("key:", key) }

var increment = redis.NewScript("return redis.call('INCR', KEYS[1])")

// Counts up every key, each time in another way, and notes what was acknowledged. A key belongs to one writer, so its values only grow.
func write(client *redis.Client, writer int, acknowledged *[keys]atomic.Int64) error {
	for n := range writes {
		key := writer + writers*(n%(keys/writers))
		next := acknowledged[key].Load() + 1
		var err error
		switch n / (keys / writers) % 5 {
		case 0:
			err = client.Set(ctx, name(key), next, 0).Err()
		case 1:
			err = client.Incr(ctx, name(key)).Err()
		case 2:
			_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Del(ctx, name(key))
				pipe.Set(ctx, name(key), next, 0)
				return nil
			})
		case 3:
			err = increment.Run(ctx, client, []string{name(key)}).Err()
		case 4:
			temporary := fmt.Sprint("temporary:", key)
			client.Set(ctx, temporary, next, 0)
			err = client.Rename(ctx, temporary, name(key)).Err()
		}
		if err != nil {
			return err
		}
		acknowledged[key].Store(next)
	}
	return nil
}

// Runs writers, and readers for as long as they write; the first error of any.
func race(read func(reader int, acknowledged *[keys]atomic.Int64) error) (*[keys]atomic.Int64, error) {
	client := plain()
	defer client.Close()
	var acknowledged [keys]atomic.Int64
	var writing, reading sync.WaitGroup
	var over atomic.Bool
	failures := make(chan error, writers+readers)
	for writer := range writers {
		writing.Go(func() {
			failures <- write(client, writer, &acknowledged)
		})
	}
	for reader := range readers {
		reading.Go(func() {
			var err error
			for !over.Load() && err == nil {
				err = read(reader, &acknowledged)
			}
			failures <- err
		})
	}
	writing.Wait()
	over.Store(true)
	reading.Wait()
	close(failures)
	var all error
	for err := range failures {
		all = errors.Join(all, err)
	}
	return &acknowledged, all
}

func main() {
	address = "127.0.0.1:" + os.Args[2]
	map[string]func(){"go-redis": goRedis, "valkey-go": valkeyGo}[os.Args[1]]()
	if failed {
		os.Exit(1)
	}
}
