//! Problems that may be wanted: `accept` of a rule. Pure.

words! {
    /// A problem of the preflight that can be wanted.
    pub enum Risk {
        /// The target reloads on the signal only in part, such as dnsmasq its hosts files.
        SignalDoesNotReload = "signal-does-not-reload",
        /// The application's container restarts if the content is broken.
        Unchecked = "unchecked",
        /// The checked files stay smaller than podnudge assumes.
        MemoryLimit = "memory-limit",
        /// The pod needs the processes of the node.
        HostPid = "host-pid",
        /// The application can serve as soon as it is started, or the next replica may be restarted before.
        RestartUnproven = "restart-unproven",
        /// No policy limits podnudge's service account, as in clusters before Kubernetes 1.30.
        RightsUnlimited = "rights-unlimited",
    }
}
