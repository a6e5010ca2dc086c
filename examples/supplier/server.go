package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// mood is how the supplier behaves.
type mood int32

const (
	rough   mood = iota // fails at random
	hanging             // answers nothing
	well
)

type reservationRequest struct {
	Basket   string
	SKU      string
	Quantity int
}

type orderRequest struct {
	Reference   string
	Reservation string
}

// supplier is the server. It keeps the books that show whether its clients behave.
type supplier struct {
	url  string
	http http.Server
	mood atomic.Int32

	mu           sync.Mutex
	rng          *rand.Rand
	stock        map[string]int
	reservations map[string]*booking // by idempotency key
	orders       map[string]int      // how often each was received, by the client's reference
	delivered    map[string]int      // how often each was delivered
}

// booking is what the books have on an idempotency key.
type booking struct {
	request     reservationRequest
	received    int // times
	applied     int // times
	reservation Reservation
}

// stocked is what there is in the beginning.
var stocked = map[string]int{"bolt": 1000, "nut": 1000, "screw": 1000, "washer": 5}

func startSupplier(seed uint64) (*supplier, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &supplier{
		url:          "http://" + listener.Addr().String(),
		rng:          rand.New(rand.NewPCG(seed, 0)),
		stock:        maps.Clone(stocked),
		reservations: make(map[string]*booking),
		orders:       make(map[string]int),
		delivered:    make(map[string]int),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stock/{sku}", s.getStock)
	mux.HandleFunc("POST /reservations", s.postReservation)
	mux.HandleFunc("POST /orders", s.postOrder)
	s.http.Handler = s.door(mux)
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

func (s *supplier) close() { _ = s.http.Close() }

// door turns away what comes too often, before anything is done or even looked at.
func (s *supplier) door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mood(s.mood.Load()) == rough && s.chance() < 0.05 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fault is what goes wrong with one request.
type fault struct {
	status     int  // instead of the answer; 0 for none at all
	afterwards bool // when the work has been done
}

// fate returns what goes wrong with the next request, nil for nothing.
func (s *supplier) fate() *fault {
	if mood(s.mood.Load()) == well {
		return nil
	}
	x, afterwards := s.chance(), s.chance() < 0.5
	switch {
	case mood(s.mood.Load()) == hanging:
		return &fault{afterwards: afterwards}
	case x < 0.10:
		return &fault{status: http.StatusInternalServerError, afterwards: afterwards}
	case x < 0.15:
		return &fault{status: http.StatusServiceUnavailable}
	default:
		return nil
	}
}

// strike ends a request the bad way.
func (f *fault) strike(w http.ResponseWriter, r *http.Request) {
	switch f.status {
	case 0:
		<-r.Context().Done() // until the client has had enough
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		fallthrough
	default:
		w.WriteHeader(f.status)
	}
}

// serve does the work of a request, unless its fate is against it, and answers.
func (s *supplier) serve(w http.ResponseWriter, r *http.Request, work func() (answer any, status int)) {
	time.Sleep(time.Duration(20+20*s.chance()) * time.Millisecond)
	fault := s.fate()
	if fault != nil && !fault.afterwards {
		fault.strike(w, r)
		return
	}
	s.mu.Lock()
	answer, status := work()
	s.mu.Unlock()
	if fault != nil {
		fault.strike(w, r)
		return
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *supplier) getStock(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, func() (any, int) {
		n, ok := s.stock[r.PathValue("sku")]
		if !ok {
			return nil, http.StatusNotFound
		}
		return map[string]int{"Quantity": n}, http.StatusOK
	})
}

// postReservation applies each key once, and answers the same to each of its repetitions.
func (s *supplier) postReservation(w http.ResponseWriter, r *http.Request) {
	var request reservationRequest
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	b := s.reservations[key]
	if b == nil {
		b = &booking{request: request, reservation: Reservation{ID: "R" + strconv.Itoa(len(s.reservations)+1)}}
		s.reservations[key] = b
	}
	b.received++
	s.mu.Unlock()
	s.serve(w, r, func() (any, int) {
		if b.applied > 0 {
			return b.reservation, http.StatusOK
		}
		n, ok := s.stock[request.SKU]
		switch {
		case !ok:
			return nil, http.StatusNotFound
		case n < request.Quantity:
			return nil, http.StatusConflict
		}
		s.stock[request.SKU] -= request.Quantity
		b.applied++
		return b.reservation, http.StatusOK
	})
}

// postOrder delivers whatever it is sent.
func (s *supplier) postOrder(w http.ResponseWriter, r *http.Request) {
	var request orderRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.orders[request.Reference]++ // received, whatever becomes of it
	s.mu.Unlock()
	s.serve(w, r, func() (any, int) {
		s.delivered[request.Reference]++
		return Confirmation{Number: len(s.delivered)}, http.StatusOK
	})
}

// chance returns a number in [0, 1).
func (s *supplier) chance() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64()
}
