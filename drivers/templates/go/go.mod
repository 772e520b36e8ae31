module my.lock/driver

go 1.18

require github.com/samuel/go-zookeeper v0.0.0-20201211165307-7117e9ea2414
