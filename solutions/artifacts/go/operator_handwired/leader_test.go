// phase4:omit 4.3.2
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// leases is an API server with one Lease. written, where it is set, is called after
// each write, and refuse before each request: what it returns is answered, 0 is nothing.
type leases struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	written func()
	refuse  func(*http.Request) int
}

func (s *leases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	refuse, written := s.refuse, s.written
	s.mu.Unlock()
	if refuse != nil {
		if code := refuse(r); code != 0 {
			s.status(w, code)
			return
		}
	}
	var sent coordinationv1.Lease
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			s.status(w, http.StatusBadRequest)
			return
		}
	}
	s.mu.Lock()
	switch {
	case r.Method == http.MethodPost:
	case s.lease == nil:
		s.mu.Unlock()
		s.status(w, http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.lease)
		return
	case sent.ResourceVersion != s.lease.ResourceVersion:
		s.mu.Unlock()
		s.status(w, http.StatusConflict)
		return
	}
	s.version++
	sent.ResourceVersion = strconv.Itoa(s.version)
	s.lease = &sent
	s.mu.Unlock()
	if written != nil {
		written()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(sent)
}

func (s *leases) status(w http.ResponseWriter, code int) {
	reasons := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 500: metav1.StatusReasonInternalError}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code],
	})
}

func (s *leases) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

func (s *leases) set(refuse func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// replica runs elect against such a server until it is told to stop.
type replica struct {
	server    *leases
	terminate context.CancelFunc
	leading   chan struct{}
	ended     chan error
}

func newReplica(t *testing.T, server *leases, o electionOptions, work func(leading, terminated context.Context) error) replica {
	t.Helper()
	served := httptest.NewServer(server)
	t.Cleanup(func() {
		served.CloseClientConnections()
		served.Close()
	})
	terminated, terminate := context.WithCancel(t.Context())
	r := replica{server, terminate, make(chan struct{}), make(chan error, 1)}
	server.mu.Lock()
	if server.written == nil {
		server.written = func() {}
	}
	server.mu.Unlock()
	config := &rest.Config{Host: served.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	go func() {
		r.ended <- elect(t.Context(), terminated, config, o, func(ctx context.Context) error {
			close(r.leading)
			return work(ctx, terminated)
		})
	}()
	return r
}

func untilStopped(leading, terminated context.Context) error {
	select {
	case <-leading.Done():
	case <-terminated.Done():
	}
	return nil
}

func (r replica) end(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(within):
		t.Fatalf("it has not ended after %s", within)
		return nil
	}
}

func (r replica) lead(t *testing.T) {
	t.Helper()
	select {
	case <-r.leading:
	case <-time.After(soon):
		t.Fatal("it does not lead")
	}
}

var long = electionOptions{leaseDuration: time.Minute, renewDeadline: 40 * time.Second, retryPeriod: 50 * time.Millisecond}

func TestTheLeaseIsReleasedAfterTheWork(t *testing.T) {
	held := ""
	server := &leases{}
	r := newReplica(t, server, long, func(leading, terminated context.Context) error {
		<-terminated.Done()
		held = server.holder()
		return nil
	})
	r.lead(t)
	r.terminate()
	if err := r.end(t, soon); err != nil {
		t.Error(err)
	}
	if held == "" || server.holder() != "" {
		t.Errorf("holder at the end of the work %q, then %q", held, server.holder())
	}
}

func TestWorkThatWasCutOffKeepsTheLease(t *testing.T) {
	server := &leases{}
	r := newReplica(t, server, long, func(_, terminated context.Context) error {
		<-terminated.Done()
		return errUnfinished
	})
	r.lead(t)
	r.terminate()
	if err := r.end(t, soon); !errors.Is(err, errUnfinished) || server.holder() == "" {
		t.Errorf("ended with %v, the holder is %q", err, server.holder())
	}
}

// SIGTERM the moment the lease is written: before the answer, or before anybody works.
func TestAStopBetweenAcquiringAndLeadingReleases(t *testing.T) {
	for range 50 {
		server, acquired := &leases{}, make(chan struct{})
		var once sync.Once
		server.written = func() { once.Do(func() { close(acquired) }) }
		r := newReplica(t, server, long, untilStopped)
		<-acquired
		r.terminate()
		if err := r.end(t, soon); err != nil {
			t.Error(err)
		}
		if server.holder() != "" {
			t.Fatalf("%s still holds the lease", server.holder())
		}
	}
}

func TestTheDeadlineCountsFromTheRenewal(t *testing.T) {
	acquired := time.Time{}
	server := &leases{}
	server.written = func() {
		acquired = time.Now()
		server.set(func(*http.Request) int { return http.StatusInternalServerError })
	}
	o := electionOptions{leaseDuration: 3 * time.Second, renewDeadline: 2500 * time.Millisecond, retryPeriod: 2 * time.Second}
	r := newReplica(t, server, o, untilStopped)
	err := r.end(t, soon)
	// client-go alone gives up after 4.5 s.
	if took := time.Since(acquired); !errors.Is(err, errLostLease) || took > 3500*time.Millisecond {
		t.Errorf("ended with %v %s after it acquired the lease", err, took)
	}
}

func TestTheLeaseSaysNoFewerSecondsThanAreCountedOn(t *testing.T) {
	server := &leases{}
	o := electionOptions{leaseDuration: 2900 * time.Millisecond, renewDeadline: 2700 * time.Millisecond, retryPeriod: time.Second}
	r := newReplica(t, server, o, untilStopped)
	r.lead(t)
	server.mu.Lock()
	if seconds := *server.lease.Spec.LeaseDurationSeconds; seconds != 3 {
		t.Errorf("%d s", seconds)
	}
	server.mu.Unlock()
	r.terminate()
	if err := r.end(t, soon); err != nil {
		t.Error(err)
	}
}

func TestAStopDoesNotWaitForAServerThatHangs(t *testing.T) {
	for name, leads := range map[string]bool{"leader": true, "standby": false} {
		t.Run(name, func(t *testing.T) {
			hung := make(chan struct{})
			var once sync.Once
			hang := func(r *http.Request) int {
				once.Do(func() { close(hung) })
				// Until the body is read, a server does not see that the client has gone.
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return http.StatusInternalServerError
			}
			server := &leases{}
			if !leads {
				server.set(hang)
			}
			r := newReplica(t, server, long, untilStopped)
			if leads {
				r.lead(t)
				server.set(hang)
			}
			<-hung
			r.terminate()
			// A second for the release; a request has 20.
			if err := r.end(t, 10*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

// A renewal that is applied between the release's GET and PUT: 409, and once more.
func TestARenewalThatIsLateDoesNotKeepTheLease(t *testing.T) {
	server := &leases{}
	r := newReplica(t, server, electionOptions{leaseDuration: time.Minute, renewDeadline: 40 * time.Second, retryPeriod: 20 * time.Second}, untilStopped)
	r.lead(t)
	server.set(func(r *http.Request) int {
		if r.Method != http.MethodPut {
			return 0
		}
		server.mu.Lock()
		defer server.mu.Unlock()
		server.refuse = nil
		server.version++
		server.lease.ResourceVersion = strconv.Itoa(server.version)
		return 0
	})
	r.terminate()
	if err := r.end(t, soon); err != nil || server.holder() != "" {
		t.Errorf("ended with %v, the holder is %q", err, server.holder())
	}
}
