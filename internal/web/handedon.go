package web

// HandedOn is a header that marks a request which another replica of this server has handed on, so that it is served where it comes.
// Its value is the address of who sent it, which only tells a principal's own clients apart: anybody can send it.
const HandedOn = "Code-Sandbox-Replica"
