# What the machine is, in the words of the tools that ask for it.
# cairn-test: root=debian cores=1
lscpu -p=CPU,CORE,SOCKET | grep -v '^#'; lscpu | grep -E '^(Architecture|CPU\(s\)|On-line|Vendor ID|Model name|Thread|Core|Socket)' | tr -s ' '
cd /sys/devices/system/cpu && cat online possible present offline cpu0/topology/core_id cpu0/topology/thread_siblings_list cpu0/topology/core_cpus_list
nproc; nproc --all; getconf _NPROCESSORS_CONF _NPROCESSORS_ONLN; python3 -c 'import os; print(os.cpu_count())'
uname -m; grep -c ^processor /proc/cpuinfo
