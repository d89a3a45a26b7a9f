//! /proc/net: heads of the tables, whose lines are asked of the servers of Internet sockets and local ones.

use crate::system::System;
use crate::table::Who;
use alloc::string::String;
use cairn_idl::net::Listing;

const DEVICES: &str = "Inter-|   Receive                                                |  Transmit\n \
face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT                                                       \n";
const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n";
const UDP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops             \n";
const TCP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
const UDP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n";

fn table<S: System>(system: &mut S, head: &str, table: Listing, to: &mut String) -> Option<()> {
    to.push_str(head);
    to.push_str(&system.net_table(table));
    Some(())
}

const PACKET: &str = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n";
const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";

pub fn raw<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP, Listing::Raw, to)
}

pub fn raw6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP6, Listing::Raw6, to)
}

pub fn packet<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, PACKET, Listing::Packets, to)
}

/// Local sockets are another server's.
pub fn unix<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    to.push_str(UNIX);
    to.push_str(&system.local_table());
    Some(())
}

pub fn tcp<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, TCP, Listing::Tcp, to)
}

pub fn tcp6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, TCP6, Listing::Tcp6, to)
}

pub fn udp<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP, Listing::Udp, to)
}

pub fn udp6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP6, Listing::Udp6, to)
}

pub fn udplite<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP, Listing::Udplite, to)
}

pub fn udplite6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, UDP6, Listing::Udplite6, to)
}

pub fn devices<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, DEVICES, Listing::Devices, to)
}

pub fn routes<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, ROUTES, Listing::Routes, to)
}

pub fn addresses6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, "", Listing::Addresses6, to)
}

const GROUPS: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n";
const FILTERS: &str = "Idx Device        MCA        SRC    INC    EXC\n";
const FILTERS6: &str =
    "Idx Device                Multicast Address                   Source Address    INC    EXC\n";

pub fn groups<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, GROUPS, Listing::Groups, to)
}

pub fn groups6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, "", Listing::Groups6, to)
}

pub fn hardware_groups<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, "", Listing::Hardware, to)
}

pub fn filters<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, FILTERS, Listing::Filters, to)
}

pub fn filters6<S: System>(system: &mut S, _: Who, to: &mut String) -> Option<()> {
    table(system, FILTERS6, Listing::Filters6, to)
}
