package cli

func (k *keeper) begin() error { return nil }
