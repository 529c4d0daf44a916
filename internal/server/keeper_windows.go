// Windows has no process that waits for a server to end.

package server

func (k *keeper) begin() error { return nil }
