// Package mssql is a SQL Server for tests: one that speaks its wire protocol (TDS 7.4) and knows no SQL.
//
// Start it with a function that answers requests; what clients sent can be read afterwards. It stands in where no
// real server is in reach, and shows what is sent and how answers are read, never what a server makes of a text.
package mssql

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
)

// User and Password are the one login that there is, and Token another one: of Tenant, for Resource.
const (
	Token    = "eyJ0.eyJzdWIiOiJyZWFkZXIifQ.c2ln" //nolint:gosec // as Password
	Tenant   = "11111111-2222-3333-4444-555555555555"
	Resource = "https://database.windows.net/"
	User     = "reader"
	Password = "p@ss;w}rd 'x\"" //nolint:gosec // of a server that has nothing; full of what quoting goes wrong with
)

// Kind is what a client asks for.
type Kind string

// The kinds of requests.
const (
	Batch     Kind = "batch" // a text
	RPC       Kind = "rpc"   // a procedure; sp_executesql's text and parameters are taken apart
	Begin     Kind = "begin"
	Commit    Kind = "commit"
	Rollback  Kind = "rollback"
	Attention Kind = "attention"
)

// Request is what a client sent.
type Request struct {
	Kind        Kind
	Conn        int    // which connection, counted from 1
	Procedure   string // of an RPC
	Text        string
	Declared    string // sp_executesql's declaration of parameters
	Params      []Param
	Reset       bool   // the session is to be reset first
	Transaction uint64 // 0 outside of transactions
}

// Param is a parameter of an RPC.
type Param struct {
	Name  string
	Type  byte
	Value any // nil, int64, float64, bool or string
}

// Login is what a client said of itself.
type Login struct {
	User, Password, App, Database, Host string
	Token                               string // in place of user and password
	ReadOnly                            bool
}

// Reply is what the server answers. The zero value is done without a result.
type Reply struct {
	Columns []Column
	Rows    [][]any
	// More gives further rows until it returns false, or the client cancels.
	More func() ([]any, bool)
	// Error comes after the rows; without Columns, instead of them.
	Error *Error
	// Aborts has the error end the transaction, as XACT_ABORT does.
	Aborts bool
	// Hang waits for the client to cancel.
	Hang bool
	// Drop closes the connection without an answer.
	Drop bool
}

// Error is an error of the server.
type Error struct {
	Number       int32
	State, Class byte
	Message      string
	Procedure    string
	Line         int32
}

// Server is a running server.
type Server struct {
	listener net.Listener
	handle   func(Request) Reply
	tls      *tls.Config // nil: none
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	count    int
	requests []Request
	logins   []Login
	mute     bool
	refusal  *Error
}

// Start starts a server. Batches and RPCs are answered by handle, which several goroutines may call; logins and
// transactions are answered by the server itself. The caller stops it.
func Start(handle func(Request) Reply) (*Server, error) {
	s := newServer(handle)
	return s, s.listen("127.0.0.1:0")
}

func newServer(handle func(Request) Reply) *Server {
	return &Server{handle: handle, conns: make(map[net.Conn]bool)}
}

func (s *Server) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.listener = listener
	s.wg.Go(s.accept)
	return nil
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.count++
		n, mute := s.count, s.mute
		s.mu.Unlock()
		if !mute {
			s.wg.Go(func() {
				serve(s, s.wrap(conn), n)
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			})
		}
	}
}

// Address is host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// DSN is a URL without a password. The server does not encrypt.
func (s *Server) DSN() string {
	return fmt.Sprintf("sqlserver://%s@%s?database=shop&encrypt=disable", User, s.Address())
}

// Mute has new connections accepted and never answered.
func (s *Server) Mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

// Refuse has every login answered with an error.
func (s *Server) Refuse(e Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = &e
}

// Break closes all connections, as a restart does.
func (s *Server) Break() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// Stop ends the server and waits for what it serves.
func (s *Server) Stop() {
	_ = s.listener.Close()
	s.Break()
	s.wg.Wait()
}

// Requests is what came so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Logins is who logged in so far, also in vain.
func (s *Server) Logins() []Login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.logins)
}

func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}
