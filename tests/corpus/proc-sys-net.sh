# What /proc/sys/net says of sockets, TCP and UDP: what programs read before they choose their options.
cd /proc/sys/net
for name in core/netdev_max_backlog core/optmem_max core/rmem_default core/rmem_max core/somaxconn core/wmem_default core/wmem_max \
    ipv4/icmp_echo_ignore_all ipv4/icmp_echo_ignore_broadcasts ipv4/ip_default_ttl ipv4/ip_forward ipv4/ip_local_port_range ipv4/ip_local_reserved_ports \
    ipv4/ip_no_pmtu_disc ipv4/ip_nonlocal_bind ipv4/ip_unprivileged_port_start ipv4/tcp_allowed_congestion_control \
    ipv4/tcp_available_congestion_control ipv4/tcp_congestion_control ipv4/tcp_dsack ipv4/tcp_ecn ipv4/tcp_fin_timeout ipv4/tcp_keepalive_intvl \
    ipv4/tcp_keepalive_probes ipv4/tcp_keepalive_time ipv4/tcp_moderate_rcvbuf ipv4/tcp_recovery ipv4/tcp_retries1 ipv4/tcp_retries2 ipv4/tcp_sack \
    ipv4/tcp_slow_start_after_idle ipv4/tcp_syn_retries ipv4/tcp_synack_retries ipv4/tcp_syncookies ipv4/tcp_timestamps ipv4/tcp_window_scaling \
    ipv4/udp_rmem_min ipv4/udp_wmem_min ipv6/bindv6only ipv6/ip_nonlocal_bind ipv6/conf/all/disable_ipv6 unix/max_dgram_qlen; do
    echo "$name: $(cat $name)"
done
# The third number goes by the memory.
cut -f1,2 ipv4/tcp_rmem ipv4/tcp_wmem
