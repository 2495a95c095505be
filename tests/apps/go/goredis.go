// go-redis with its client-side cache, which reads invalidations when it next uses or looks at a connection.
package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

func cachingGoRedis() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: address, Protocol: 3, MaxRetries: -1,
		ClientSideCacheConfig: &redis.ClientSideCacheConfig{MaxEntries: 10000},
	})
}

func goRedis() {
	writer := plain()
	check("go-redis: answers repeated reads itself", func() error {
		writer.FlushAll(ctx)
		client := cachingGoRedis()
		defer client.Close()
		writer.Set(ctx, "a", "1", 0)
		writer.HSet(ctx, "h", "f", "v")
		for range 100 {
			err := errors.Join(same(client.Get(ctx, "a").Val(), "1"), same(client.HGet(ctx, "h", "f").Val(), "v"))
			if err != nil {
				return err
			}
		}
		stats := client.CSCStats()
		return same(stats.Hits >= 190, true)
	})
	check("go-redis: what another client does reaches the cache", func() error {
		client := cachingGoRedis()
		defer client.Close()
		changes := []struct {
			what   string
			change func() error
			value  string
		}{
			{"SET", func() error { return writer.Set(ctx, "b", "set", 0).Err() }, "set"},
			{"APPEND", func() error { return writer.Append(ctx, "b", "+").Err() }, "set+"},
			{"DEL", func() error { return writer.Del(ctx, "b").Err() }, ""},
			{"script", func() error {
				return writer.Eval(ctx, "return redis.call('SET', KEYS[1], ARGV[1])", []string{"b"}, "script").Err()
			}, "script"},
			{"FLUSHALL", func() error { return writer.FlushAll(ctx).Err() }, ""},
			{"MSET", func() error { return writer.MSet(ctx, "b", "mset", "c", "d").Err() }, "mset"},
			{"an end of life", func() error { return writer.PExpire(ctx, "b", 20*time.Millisecond).Err() }, ""},
		}
		for _, each := range changes {
			client.Get(ctx, "b")
			client.Get(ctx, "b")
			if err := each.change(); err != nil {
				return err
			}
			err := until(each.what, func() (bool, error) { return client.Get(ctx, "b").Val() == each.value, nil })
			if err != nil {
				return err
			}
		}
		return nil
	})
	check("go-redis: under load nothing stale is left behind", func() error {
		writer.FlushAll(ctx)
		client := cachingGoRedis()
		defer client.Close()
		acknowledged, err := race(func(reader int, _ *[keys]atomic.Int64) error {
			for key := range keys {
				if err := client.Get(ctx, name(key)).Err(); err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for key := range keys {
			last := fmt.Sprint(acknowledged[key].Load())
			if err := same(writer.Get(ctx, name(key)).Val(), last); err != nil {
				return err
			}
			err := until("the last value", func() (bool, error) { return client.Get(ctx, name(key)).Val() == last, nil })
			if err != nil {
				return err
			}
		}
		return same(client.CSCStats().Hits > 0, true)
	})
}
