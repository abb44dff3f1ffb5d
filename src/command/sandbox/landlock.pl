# Restricts itself by Landlock, and becomes the program that its arguments name: it and its children connect to the given ports over
# TCP and to no others. From ABI 6 on they also signal no process outside, and connect to no abstract Unix socket there.
# Arguments: number of the system call prctl, ports joined by commas, the program. Without a program it prints the ABI.
use strict;

my ($prctl, $ports, @program) = @ARGV;

sub refuse {
    my ($step) = @_;
    print STDERR "$step: $!\n";
    exit 126;
}

my $abi = syscall(444, 0, 0, 1);
refuse('landlock_create_ruleset') if $abi < 0;
if ($abi < 4) {
    print STDERR "the kernel's Landlock has no rules for TCP (ABI $abi, 4 is needed)\n";
    exit 126;
}
# No access to files is handled, connecting over TCP is, and so are signals and abstract sockets.
my $handled = $abi < 6 ? pack('QQ', 0, 2) : pack('QQQ', 0, 2, 3);
my $ruleset = syscall(444, $handled, length $handled, 0);
refuse('landlock_create_ruleset') if $ruleset < 0;
for my $port (split /,/, $ports) {
    my $rule = pack('QQ', 2, $port);
    syscall(445, $ruleset, 2, $rule, 0) == 0 or refuse('landlock_add_rule');
}
syscall($prctl + 0, 38, 1, 0, 0, 0) == 0 or refuse('prctl');
syscall(446, $ruleset, 0) == 0 or refuse('landlock_restrict_self');

unless (@program) {
    print "$abi\n";
    exit 0;
}
# Variables that perl itself would have followed came under other names.
delete $ENV{LC_ALL};
for my $name (grep { /^SAFEMIGRATE_KEPT_/ } keys %ENV) {
    $ENV{ substr $name, length 'SAFEMIGRATE_KEPT_' } = delete $ENV{$name};
}
exec { $program[0] } @program or print STDERR "$program[0]: $!\n";
exit 127;
