// valkey-go with its client-side cache: one connection, tracked with OPTIN or by prefixes, whose invalidations come before later replies.
package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

func cachingValkeyGo(tracking ...string) (valkey.Client, error) {
	return valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true, PipelineMultiplex: -1, ClientTrackingOptions: tracking,
	})
}

// Reads through the cache, for which values have an hour to live; a key that is not there is 0.
func cached(client valkey.Client, key string) (value int64, hit bool, err error) {
	response := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour)
	value, err = response.AsInt64()
	if valkey.IsValkeyNil(err) {
		err = nil
	}
	return value, response.IsCacheHit(), err
}

func valkeyGo() {
	for _, mode := range []struct {
		name     string
		tracking []string
	}{{"OPTIN", []string{"OPTIN"}}, {"BCAST", []string{"PREFIX", "key:", "BCAST"}}} {
		check("valkey-go "+mode.name+": answers repeated reads itself", func() error {
			client, err := cachingValkeyGo(mode.tracking...)
			if err != nil {
				return err
			}
			defer client.Close()
			writer := plain()
			defer writer.Close()
			writer.FlushAll(ctx)
			hits := 0
			for n := range 100 {
				if n == 50 {
					writer.Set(ctx, "key:a", 7, 0)
					client.Do(ctx, client.B().Ping().Build())
				}
				value, hit, err := cached(client, "key:a")
				if err := errors.Join(err, same(value, int64(n/50*7))); err != nil {
					return err
				}
				if hit {
					hits++
				}
			}
			return same(hits, 98)
		})
		check("valkey-go "+mode.name+": never an older value than the one acknowledged before", func() error {
			client, err := cachingValkeyGo(mode.tracking...)
			if err != nil {
				return err
			}
			defer client.Close()
			var hits atomic.Int64
			plain().FlushAll(ctx)
			client.Do(ctx, client.B().Ping().Build())
			acknowledged, err := race(func(reader int, acknowledged *[keys]atomic.Int64) error {
				for n := range keys {
					key := (n + reader) % keys
					before := acknowledged[key].Load()
					// An invalidation is sent before the write is answered, so it comes before the answer to what is sent now.
					if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
						return err
					}
					for range 3 {
						value, hit, err := cached(client, name(key))
						if err != nil {
							return err
						}
						if hit {
							hits.Add(1)
						}
						if value < before {
							return fmt.Errorf("%s is %d, %d was acknowledged before (from the cache: %t)", name(key), value, before, hit)
						}
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			client.Do(ctx, client.B().Ping().Build())
			for key := range keys {
				value, _, err := cached(client, name(key))
				if err := errors.Join(err, same(value, acknowledged[key].Load())); err != nil {
					return err
				}
			}
			return same(hits.Load() > 0, true)
		})
		check("valkey-go "+mode.name+": a value that expires is not kept", func() error {
			client, err := cachingValkeyGo(mode.tracking...)
			if err != nil {
				return err
			}
			defer client.Close()
			writer := plain()
			defer writer.Close()
			writer.Set(ctx, "key:short", 1, 50*time.Millisecond)
			first, _, err := cached(client, "key:short")
			return errors.Join(err, same(first, int64(1)), until("it expires", func() (bool, error) {
				value, _, err := cached(client, "key:short")
				return value == 0, err
			}))
		})
	}
}
