package sandbox

// Watch has changed called whenever a session of this server has come into use or gone, from a goroutine
// of its own. It is called once, before the manager is used.
func (m *Manager) Watch(changed func()) { m.changed = changed }

// cameOrWent tells the watcher that there is another session, or one less.
func (m *Manager) cameOrWent() {
	if m.changed != nil {
		go m.changed()
	}
}

// Known describes the sessions that this server has open and that were used, in no order. It asks neither the engine nor
// a kernel, so it says nothing of sizes, nor of kernels that are kept.
func (m *Manager) Known() []SessionInfo {
	m.mu.Lock()
	fallback := m.fallback
	m.mu.Unlock()
	var known []SessionInfo
	for _, s := range m.all() {
		if s.used.Load() {
			known = append(known, s.info(fallback, nil))
		}
	}
	return known
}
