// The data types and channels in the words of go-redis.
package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}

func until(what string, condition func() bool) error {
	for began := time.Now(); !condition(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			return fmt.Errorf("%s: not in time", what)
		}
	}
	return nil
}

func types(client *redis.Client, protocol int) {
	name := func(what string) string { return fmt.Sprintf("go-redis RESP%d: %s", protocol, what) }
	client.FlushAll(ctx)
	check(name("lists"), func() error {
		return errors.Join(
			same(client.RPush(ctx, "l", "a", "b", "c").Val(), int64(3)),
			same(client.LInsertBefore(ctx, "l", "c", "x").Val(), int64(4)),
			same(client.LRange(ctx, "l", 0, -1).Val(), []string{"a", "b", "x", "c"}),
			same(client.LPos(ctx, "l", "x", redis.LPosArgs{}).Val(), int64(2)),
			same(client.LMove(ctx, "l", "m", "LEFT", "RIGHT").Val(), "a"),
			same(client.LPopCount(ctx, "l", 5).Val(), []string{"b", "x", "c"}),
			same(client.LPop(ctx, "l").Err(), redis.Nil),
		)
	})
	check(name("blocking pops"), func() error {
		popped := make(chan []string)
		go func() { popped <- client.BLPop(ctx, 30*time.Second, "q1", "q2").Val() }()
		err := until("it waits", func() bool {
			return strings.Contains(client.Info(ctx, "clients").Val(), "blocked_clients:1\r")
		})
		client.RPush(ctx, "q2", "x")
		client.ZAdd(ctx, "z1", redis.Z{Score: 3, Member: "m"})
		return errors.Join(
			err,
			same(<-popped, []string{"q2", "x"}),
			same(client.BZPopMin(ctx, 30*time.Second, "z1").Val(), &redis.ZWithKey{Z: redis.Z{Score: 3, Member: "m"}, Key: "z1"}),
		)
	})
	check(name("hashes"), func() error {
		return errors.Join(
			same(client.HSet(ctx, "h", "a", 1, "b", "x").Val(), int64(2)),
			same(client.HGetAll(ctx, "h").Val(), map[string]string{"a": "1", "b": "x"}),
			same(client.HIncrBy(ctx, "h", "a", 41).Val(), int64(42)),
			same(client.HMGet(ctx, "h", "a", "none").Val(), []any{"42", nil}),
			same(client.HExpire(ctx, "h", 100*time.Second, "b", "none").Val(), []int64{1, -2}),
			same(client.HTTL(ctx, "h", "b").Val()[0] > 97, true),
			same(client.HPExpire(ctx, "h", 20*time.Millisecond, "b").Val(), []int64{1}),
			until("the field goes", func() bool { return !client.HExists(ctx, "h", "b").Val() }),
		)
	})
	check(name("sets"), func() error {
		client.SAdd(ctx, "t", 2, 3, 4)
		return errors.Join(
			same(client.SAdd(ctx, "s", 1, 2, 3, "x").Val(), int64(4)),
			same(sorted(client.SInter(ctx, "s", "t").Val()), []string{"2", "3"}),
			same(sorted(client.SDiff(ctx, "s", "t").Val()), []string{"1", "x"}),
			same(client.SUnionStore(ctx, "u", "s", "t").Val(), int64(5)),
			same(client.SMIsMember(ctx, "s", "1", "none").Val(), []bool{true, false}),
		)
	})
	check(name("sorted sets"), func() error {
		all := []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}, {Score: math.Inf(1), Member: "c"}}
		return errors.Join(
			same(client.ZAdd(ctx, "z", all...).Val(), int64(3)),
			same(client.ZRangeWithScores(ctx, "z", 0, -1).Val(), all),
			same(client.ZIncrBy(ctx, "z", 2, "a").Val(), 3.0),
			same(client.ZRank(ctx, "z", "a").Val(), int64(1)),
			same(client.ZRangeByScore(ctx, "z", &redis.ZRangeBy{Min: "(2.5", Max: "+inf"}).Val(), []string{"a", "c"}),
			same(client.ZPopMin(ctx, "z").Val(), all[1:2]),
		)
	})
	check(name("streams with a group"), func() error {
		client.XAdd(ctx, &redis.XAddArgs{Stream: "x", ID: "1-1", Values: []any{"n", 1}})
		client.XAdd(ctx, &redis.XAddArgs{Stream: "x", Values: []any{"n", 2}})
		client.XGroupCreate(ctx, "x", "g", "0")
		taken, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "one", Streams: []string{"x", ">"}, Count: 1}).Result()
		if err != nil {
			return err
		}
		pending := client.XPending(ctx, "x", "g").Val()
		claimed, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "x", Group: "g", Consumer: "two", Start: "0"}).Result()
		if err != nil {
			return err
		}
		return errors.Join(
			same(client.XLen(ctx, "x").Val(), int64(2)),
			same(len(taken), 1),
			same(taken[0].Messages[0].Values, map[string]any{"n": "1"}),
			same(pending.Consumers, map[string]int64{"one": 1}),
			same(claimed[0].ID, "1-1"),
			same(client.XAck(ctx, "x", "g", "1-1").Val(), int64(1)),
		)
	})
	check(name("geo"), func() error {
		client.GeoAdd(ctx, "geo", &redis.GeoLocation{Longitude: 13.361389, Latitude: 38.115556, Name: "Palermo"})
		client.GeoAdd(ctx, "geo", &redis.GeoLocation{Longitude: 15.087269, Latitude: 37.502669, Name: "Catania"})
		query := &redis.GeoSearchQuery{Longitude: 15, Latitude: 37, Radius: 200, RadiusUnit: "km", Sort: "ASC"}
		return errors.Join(
			same(math.Abs(client.GeoDist(ctx, "geo", "Palermo", "Catania", "km").Val()-166.2742) < 0.001, true),
			same(client.GeoSearch(ctx, "geo", query).Val(), []string{"Catania", "Palermo"}),
		)
	})
	check(name("bitmaps and HyperLogLog"), func() error {
		elements := make([]any, 1000)
		for n := range elements {
			elements[n] = n
		}
		return errors.Join(
			same(client.SetBit(ctx, "bits", 7, 1).Val(), int64(0)),
			same(client.BitCount(ctx, "bits", nil).Val(), int64(1)),
			same(client.BitPos(ctx, "bits", 1).Val(), int64(7)),
			same(client.BitField(ctx, "field", "SET", "u8", 0, 255, "INCRBY", "u8", 0, 10).Val(), []int64{0, 9}),
			same(client.PFAdd(ctx, "hll", elements...).Val(), int64(1)),
			same(math.Abs(float64(client.PFCount(ctx, "hll").Val()-1000)) < 30, true),
		)
	})
	check(name("sorting"), func() error {
		client.RPush(ctx, "nums", 3, 1, 2)
		client.MSet(ctx, "w:1", 30, "w:2", 10, "w:3", 20)
		return errors.Join(
			same(client.Sort(ctx, "nums", &redis.Sort{Order: "DESC"}).Val(), []string{"3", "2", "1"}),
			same(client.Sort(ctx, "nums", &redis.Sort{By: "w:*", Get: []string{"w:*"}}).Val(), []string{"10", "20", "30"}),
		)
	})
	check(name("channels"), func() error {
		listener := client.Subscribe(ctx, "news")
		defer listener.Close()
		err := errors.Join(listener.PSubscribe(ctx, "sport.*"), listener.SSubscribe(ctx, "local"))
		for range 3 {
			_, failure := listener.ReceiveTimeout(ctx, 10*time.Second)
			err = errors.Join(err, failure)
		}
		client.Publish(ctx, "news", "one")
		client.Publish(ctx, "sport.ski", "two")
		client.SPublish(ctx, "local", "three")
		for _, expected := range []string{"news one", "sport.ski two", "local three"} {
			message, failure := listener.ReceiveMessage(ctx)
			if failure != nil {
				return failure
			}
			err = errors.Join(err, same(message.Channel+" "+message.Payload, expected))
		}
		return err
	})
}
