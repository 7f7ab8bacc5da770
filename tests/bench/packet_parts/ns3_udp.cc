// Plain UDP forwarding in stock ns-3, as a yardstick of speed: no congestion control, no ACKs.
//
// usage: ns3_udp TOPOLOGY FLOWS MICROSECONDS
//   TOPOLOGY  HPCC topology file; FLOWS rows "src dst bits_per_second".
// Prints one JSON line: packets sent on all links, events, CPU seconds of the run itself.

#include <ctime>
#include <fstream>
#include <iostream>
#include <set>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static uint64_t g_sent = 0;
static void CountPacket(Ptr<const Packet>) { ++g_sent; }

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::cerr << "usage: ns3_udp TOPOLOGY FLOWS MICROSECONDS\n";
        return 2;
    }
    std::ifstream topology(argv[1]), flows(argv[2]);
    uint32_t nodes = 0, switches = 0, links = 0;
    topology >> nodes >> switches >> links;
    std::set<uint32_t> forwarding;
    for (uint32_t i = 0, id; i < switches; ++i) {
        topology >> id;
        forwarding.insert(id);
    }
    Config::SetDefault("ns3::Ipv4GlobalRouting::RandomEcmpRouting", BooleanValue(false));
    NodeContainer all;
    all.Create(nodes);
    InternetStackHelper stack;
    stack.Install(all);
    PointToPointHelper wire;
    wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    Ipv4AddressHelper address("10.0.0.0", "255.255.255.252");
    TrafficControlHelper control;
    std::vector<Ipv4Address> of(nodes);
    for (uint32_t i = 0; i < links; ++i) {
        uint32_t a, b;
        std::string rate, delay, error;
        topology >> a >> b >> rate >> delay >> error;
        wire.SetDeviceAttribute("DataRate", StringValue(rate));
        wire.SetChannelAttribute("Delay", StringValue(delay));
        NetDeviceContainer ends = wire.Install(all.Get(a), all.Get(b));
        for (uint32_t end = 0; end < 2; ++end)
            ends.Get(end)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&CountPacket));
        Ipv4InterfaceContainer interfaces = address.Assign(ends);
        control.Uninstall(ends); // no queue discipline: less work than ns-3 does by default
        address.NewNetwork();
        if (!forwarding.count(a)) of[a] = interfaces.GetAddress(0);
        if (!forwarding.count(b)) of[b] = interfaces.GetAddress(1);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    const Time end = MicroSeconds(std::stoul(argv[3]));
    uint32_t src, dst;
    double rate;
    std::set<uint32_t> listening;
    while (flows >> src >> dst >> rate) {
        if (listening.insert(dst).second) {
            UdpServerHelper server(4791);
            server.Install(all.Get(dst)).Start(Seconds(0));
        }
        UdpClientHelper client(of[dst], 4791);
        client.SetAttribute("PacketSize", UintegerValue(1000));
        client.SetAttribute("MaxPackets", UintegerValue(UINT32_MAX));
        client.SetAttribute("Interval", TimeValue(PicoSeconds(int64_t(1048 * 8e12 / rate))));
        client.Install(all.Get(src)).Start(NanoSeconds(1 + src));
    }
    Simulator::Stop(end);
    const std::clock_t before = std::clock();
    Simulator::Run();
    const double cpu = double(std::clock() - before) / CLOCKS_PER_SEC;
    std::cout << "{\"link_packets\": " << g_sent << ", \"events\": " << Simulator::GetEventCount()
              << ", \"cpu_s\": " << cpu << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
