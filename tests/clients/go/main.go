// Smoke test of go-redis: `main PORT`.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	failed bool
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

func saysIn(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("expected an error with %q, got %v", text, err)
	}
	return nil
}

func options(protocol int) *redis.Options {
	return &redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol, MaxRetries: -1}
}

func suite(protocol int) {
	client := redis.NewClient(options(protocol))
	defer client.Close()
	name := func(what string) string { return fmt.Sprintf("go-redis RESP%d: %s", protocol, what) }

	check(name("connects"), func() error {
		if err := client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		return same(client.Ping(ctx).Val(), "PONG")
	})
	check(name("strings"), func() error {
		client.Set(ctx, "a", "1", 0)
		client.MSet(ctx, "x", 1, "y", 2)
		return errors.Join(
			same(client.SetNX(ctx, "a", "2", 0).Val(), false),
			same(client.IncrBy(ctx, "a", 41).Val(), int64(42)),
			same(client.MGet(ctx, "x", "none", "y").Val(), []any{"1", nil, "2"}),
			same(client.Get(ctx, "none").Err(), redis.Nil),
			same(client.Del(ctx, "x", "y", "none").Val(), int64(2)),
		)
	})
	check(name("pipelines"), func() error {
		gets := make([]*redis.StringCmd, 1000)
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := range gets {
				pipe.Set(ctx, fmt.Sprint("p:", n), n, 0)
				gets[n] = pipe.Get(ctx, fmt.Sprint("p:", n))
			}
			return nil
		})
		for n, get := range gets {
			err = errors.Join(err, same(get.Val(), fmt.Sprint(n)))
		}
		return err
	})
	check(name("transactions"), func() error {
		var get *redis.StringCmd
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "t", 1, 0)
			pipe.Incr(ctx, "t")
			get = pipe.Get(ctx, "t")
			return nil
		})
		return errors.Join(err, same(get.Val(), "2"))
	})
	check(name("watches"), func() error {
		client.Set(ctx, "w", 1, 0)
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			client.Set(ctx, "w", 100, 0)
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "w", 2, 0)
				return nil
			})
			return err
		}, "w")
		return errors.Join(same(err, redis.TxFailedErr), same(client.Get(ctx, "w").Val(), "100"))
	})
	check(name("scans"), func() error {
		client.FlushAll(ctx)
		pairs := []any{}
		for n := range 2000 {
			pairs = append(pairs, fmt.Sprint("scan:", n), 1)
		}
		client.MSet(ctx, pairs...)
		found := map[string]bool{}
		all := client.Scan(ctx, 0, "scan:*", 100).Iterator()
		for all.Next(ctx) {
			found[all.Val()] = true
		}
		return errors.Join(all.Err(), same(len(found), 2000))
	})
	check(name("expires"), func() error {
		client.Set(ctx, "e", 1, 30*time.Millisecond)
		for began := time.Now(); client.Exists(ctx, "e").Val() == 1; {
			if time.Since(began) > 5*time.Second {
				return errors.New("it does not expire")
			}
		}
		client.Set(ctx, "e", 1, 100*time.Second)
		ttl := client.TTL(ctx, "e").Val()
		return errors.Join(same(ttl > 97*time.Second, true), same(client.Persist(ctx, "e").Val(), true))
	})
	check(name("binaries"), func() error {
		value := make([]byte, 65536)
		for n := range value {
			value[n] = byte(n)
		}
		client.Set(ctx, "\x00\xff", value, 0)
		got, err := client.Get(ctx, "\x00\xff").Bytes()
		return errors.Join(err, same(bytes.Equal(got, value), true))
	})
	check(name("errors"), func() error {
		client.Set(ctx, "word", "x", 0)
		return errors.Join(
			saysIn(client.Incr(ctx, "word").Err(), "not an integer"),
			saysIn(client.Do(ctx, "NO-SUCH-COMMAND").Err(), "unknown command"),
			same(client.Get(ctx, "word").Val(), "x"),
		)
	})
	types(client, protocol)
	check(name("authenticates"), func() error {
		if err := client.ConfigSet(ctx, "requirepass", "secret").Err(); err != nil {
			return err
		}
		defer client.ConfigSet(ctx, "requirepass", "")
		known, wrong := options(protocol), options(protocol)
		known.Password, wrong.Password = "secret", "wrong"
		return errors.Join(
			redis.NewClient(known).Ping(ctx).Err(),
			saysIn(redis.NewClient(wrong).Ping(ctx).Err(), "WRONGPASS"),
			saysIn(redis.NewClient(options(protocol)).Get(ctx, "a").Err(), "NOAUTH"),
		)
	})
}

func main() {
	suite(2)
	suite(3)
	if failed {
		os.Exit(1)
	}
}
