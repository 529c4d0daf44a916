// Which replicas live: this one renews its Lease, and removes those of the dead.

package replicas

import (
	"context"
	"errors"
	"time"
)

// isReady reports whether no other replica can have what this one has.
func (r *Replicas) isReady() bool {
	return time.Since(r.began)-time.Duration(r.renewed.Load()) < stopAfter
}

// Ready waits until no other replica can have what this one has, for as long as ctx lasts: what is done for a session comes after it.
func (r *Replicas) Ready(ctx context.Context) error {
	for !r.isReady() {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return errors.New("this replica cannot renew its Lease: " + ctx.Err().Error())
		}
	}
	return nil
}

// renew renews this replica's Lease until it leaves.
func (r *Replicas) renew() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		began := time.Since(r.began)
		ctx, cancel := context.WithTimeout(r.ctx, requestTime)
		_, err := r.o.Leases.Change(ctx, leaseOf(r.o.Group, r.o.Name), Change{If: &r.o.Name})
		switch {
		case err == nil:
			if !r.isReady() {
				r.o.Logger.Info("this replica goes on: its Lease is renewed")
			}
			r.renewed.Store(int64(began))
			r.catchUp(ctx)
		case r.ctx.Err() != nil:
		case isOver(err):
			cancel()
			r.o.Logger.Error("other replicas have taken over what this one had, because it did not renew its Lease in time: it ends")
			r.o.Lost()
			return
		default:
			r.o.Logger.Warn("renew this replica's Lease", "serves", r.isReady(), "error", err)
		}
		cancel()
	}
}

// judge removes the Leases of replicas that are dead until this one leaves.
func (r *Replicas) judge() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	blind, looked := false, time.Time{}
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		r.mu.Lock()
		now := time.Now()
		var dead []peer
		if own := r.peers[r.o.Name]; own == nil || now.Sub(own.changed) > blindAfter {
			if now.Sub(looked) > blindAfter {
				looked = now
				r.endWatch() // it may have stalled; all are listed again
			}
			blind = true
		} else if blind {
			blind = false
			for _, p := range r.peers {
				p.changed = now // how long it has been so is not known
			}
		} else {
			for _, p := range r.peers {
				if p.name != r.o.Name && now.Sub(p.changed) >= deadAfter {
					p.changed = now.Add(againAfter - deadAfter)
					dead = append(dead, *p)
				}
			}
		}
		r.mu.Unlock()
		for _, p := range dead {
			r.bury(p)
		}
	}
}

func (r *Replicas) bury(p peer) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	name := leaseOf(r.o.Group, p.name)
	switch err := r.o.Leases.Delete(ctx, name, p.version); {
	case err == nil:
		r.o.Logger.Warn("a replica is dead", "replica", p.name, "address", p.address)
		fallthrough
	case errors.Is(err, ErrNotFound):
		r.mu.Lock()
		r.drop(p.name)
		r.mu.Unlock()
	case errors.Is(err, ErrChanged): // it lives; a watch will tell
	default:
		r.o.Logger.Warn("remove the Lease of a replica that is dead", "replica", p.name, "error", err)
	}
}
